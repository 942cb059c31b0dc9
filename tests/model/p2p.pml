/*
 * Point-to-point between two ranks, both directions at once. docs/protocol.md, section 4.
 *
 * Each rank starts MESSAGES sends (tags 0, 1, ...) and as many receives, in any order. Rings hold RING records; there are
 * EAGER_SLOTS eager slots and one pipe for each ordered pair. Asked here: does everything complete (else an invalid end
 * state)? Does a rank that has returned still owe its peer anything?
 */
#ifndef RING
#define RING 1
#endif
#ifndef MESSAGES           /* at least 2 */
#define MESSAGES 3
#endif
#ifndef EAGER_SLOTS
#define EAGER_SLOTS 1
#endif
#ifndef ONE_BY_ONE         /* 1: blocking receives, in any order of tags; 0: all may be open at once */
#define ONE_BY_ONE 1
#endif

/* The rules; each other value is a variant that must fail. */
#ifndef UNEXPECTED_LIMIT   /* draining stops when so many unexpected messages are held */
#define UNEXPECTED_LIMIT 255
#endif
#ifndef BLOCKING_PUT       /* 1: wait for room in the ring instead of queueing locally */
#define BLOCKING_PUT 0
#endif
#ifndef SHARED_POOL        /* 1: eager messages and pipes take slots from one pool */
#define SHARED_POOL 0
#endif

mtype = { SEND, EAGER, CTS, DATA, ACK };
chan ring[2] = [RING] of { mtype, byte };              /* ring[r] is written by rank r */
chan queue[2] = [3 * MESSAGES] of { mtype, byte };     /* local; never longer than the open requests of its rank allow */
byte done;

#define me _pid
#define peer (1 - _pid)

#if BLOCKING_PUT
#define PUT(record, tag) ring[me]!record, tag
#else
#define PUT(record, tag)                                                          \
  if                                                                              \
  :: len(queue[me]) == 0 && len(ring[me]) < RING -> ring[me]!record, tag          \
  :: else -> assert(len(queue[me]) < 3 * MESSAGES); queue[me]!record, tag         \
  fi
#endif

/* The state of a receive, by tag. */
#define NONE 0
#define POSTED 1
#define UNEXPECTED 2         /* arrived, not matched; the payload waits for a pipe */
#define UNEXPECTED_EAGER 3   /* arrived, not matched; the payload is in the sender's slot */
#define MATCHED 4
#define RECEIVED 5

#define NOT_ASKED_FOR(tag) \
  (receive[tag] == NONE || receive[tag] == UNEXPECTED || receive[tag] == UNEXPECTED_EAGER)
#define DRAINING (held < UNEXPECTED_LIMIT)

/* A matched message takes the pipe when it is free. */
#define START_PIPE(tag) \
  !pipe && !(SHARED_POOL && eager >= EAGER_SLOTS) && cleared[tag] -> cleared[tag] = 0; pipe = 1; PUT(DATA, tag)

active [2] proctype rank() {
  byte sent = 0, acked = 0, received = 0;
  byte eager = 0;            /* eager slots in use */
  byte held = 0;             /* unexpected messages */
  byte open = 0;             /* receives asked for and not complete */
  bit pipe = 0;              /* in use */
  byte receive[MESSAGES];
  bit cleared[MESSAGES];     /* CTS has come, DATA has not gone */
  bit is_eager[MESSAGES];
  byte t;

  do
  /* isend */
  :: atomic { sent < MESSAGES ->
       t = sent; sent++;
       if
       :: eager < EAGER_SLOTS && !(SHARED_POOL && pipe && eager + 1 >= EAGER_SLOTS) ->
            eager++; is_eager[t] = 1; PUT(EAGER, t)
       :: else -> PUT(SEND, t)
       fi }

  /* receive: any tag that has not been asked for */
  :: atomic { open == 0 || !ONE_BY_ONE ->
       t = 0;
       do :: t < MESSAGES && NOT_ASKED_FOR(t) -> break :: t < MESSAGES -> t++ :: else -> break od;
       if :: t < MESSAGES -> skip :: else -> goto idle fi;
       do :: t + 1 < MESSAGES && NOT_ASKED_FOR(t + 1) -> t++ :: break od;
       open++;
       if
       :: receive[t] == UNEXPECTED_EAGER ->
            held--; receive[t] = RECEIVED; received++; open--; PUT(ACK, t)
       :: receive[t] == UNEXPECTED ->
            held--; receive[t] = MATCHED; PUT(CTS, t)
       :: else -> receive[t] = POSTED
       fi;
idle:  skip }

  /* the local queue goes on into the ring */
  :: atomic { nempty(queue[me]) && nfull(ring[me]) -> mtype m; queue[me]?m, t; ring[me]!m, t }

  /* draining the peer's ring */
  :: atomic { DRAINING && ring[peer]?[SEND, t] -> ring[peer]?SEND, t;
       if
       :: receive[t] == POSTED -> receive[t] = MATCHED; PUT(CTS, t)
       :: else -> receive[t] = UNEXPECTED; held++
       fi }
  :: atomic { DRAINING && ring[peer]?[EAGER, t] -> ring[peer]?EAGER, t;
       if
       :: receive[t] == POSTED -> receive[t] = RECEIVED; received++; open--; PUT(ACK, t)
       :: else -> receive[t] = UNEXPECTED_EAGER; held++
       fi }
  :: atomic { DRAINING && ring[peer]?[CTS, t] -> ring[peer]?CTS, t; cleared[t] = 1 }
  :: atomic { DRAINING && ring[peer]?[DATA, t] -> ring[peer]?DATA, t;
       assert(receive[t] == MATCHED); receive[t] = RECEIVED; received++; open--; PUT(ACK, t) }
  :: atomic { DRAINING && ring[peer]?[ACK, t] -> ring[peer]?ACK, t;
       acked++;
       if :: is_eager[t] -> eager-- :: else -> pipe = 0 fi }

  :: atomic { START_PIPE(0) }
  :: atomic { START_PIPE(1) }
  :: atomic { START_PIPE(MESSAGES - 1) }

  :: atomic { sent == MESSAGES && acked == MESSAGES && received == MESSAGES && empty(queue[me]) -> break }
  od;
  done++;
end:
  do :: atomic { ring[peer]?ACK, t } od       /* a rank that has returned owes nothing: see check() */
}

active proctype check() { done == 2; assert(empty(queue[0]) && empty(queue[1])) }
