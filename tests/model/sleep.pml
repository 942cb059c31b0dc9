/*
 * Sleep and wake-up under TSO store buffers. docs/protocol.md, section 3.4 (rule W).
 *
 * In every round a rank publishes, then waits for each peer in turn, perhaps asleep. Asked here: is a wake-up ever lost?
 * A rank that sleeps for ever is an invalid end state.
 */
#ifndef RANKS      /* 2 or 3 */
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#define NO_FENCE 0       /* must fail: the publisher looks without a fence */
#define EARLY_FENCE 1    /* a fence right after each publish */
#define LATE_FENCE 2     /* one fence, before sleeping or returning */
#define MEMBARRIER 3     /* chosen: look late, no fence; the sleeper's membarrier drains everybody */
#define TIMED 4          /* as NO_FENCE, but nobody sleeps for ever */
#define EARLY_LOOK 5     /* as MEMBARRIER, looking right after each publish */
#ifndef MODE
#define MODE MEMBARRIER
#endif
#ifndef SLEEPER_FENCE    /* 0: the sleeper does not fence either; must fail where MODE relies on it */
#define SLEEPER_FENCE 1
#endif

#if RANKS > 3
#error "some conditions below list at most three ranks"
#endif

byte published[RANKS];
byte asleep[RANKS];      /* 1 + the rank waited for */
byte bell[RANKS];        /* modulo 4 */
bit blocked[RANKS];      /* in futex_wait */
byte out;                /* ranks that came out */

/* A store (variable, value) waits in the FIFO store buffer of its rank until drain() carries it out. */
#define PUBLISHED 0
#define ASLEEP 1
chan buffer[RANKS] = [3] of { byte, byte };
#define STORE(variable, value) buffer[me]!variable, value
#define FENCE empty(buffer[me])
#define MEMBARRIER_ALL empty(buffer[0]) && empty(buffer[1]) && empty(buffer[RANKS - 1])

#define me _pid

#if MODE == EARLY_FENCE || MODE == LATE_FENCE
#define LOOK_FENCE FENCE
#else
#define LOOK_FENCE skip
#endif

/* lookAtBells(): ring the bell of every rank that sleeps for this one. */
#define LOOK                                                                                          \
  LOOK_FENCE;                                                                                         \
  i = 0;                                                                                              \
  do                                                                                                  \
  :: atomic { i < RANKS && (i == me || asleep[i] != me + 1) -> i++ }                                  \
  :: atomic { i < RANKS && i != me && asleep[i] == me + 1 -> bell[i] = (bell[i] + 1) % 4 };           \
     blocked[i] = 0; i++                                                                              \
  :: atomic { i >= RANKS -> break }                                                                   \
  od;                                                                                                 \
  dirty = 0

active [RANKS] proctype rank() {
  byte k = 1;      /* the round */
  byte seen;       /* the bell before falling asleep */
  byte q, i;
  bit dirty = 0;   /* published and not yet looked */

  do
  :: atomic { k > ROUNDS -> break }
  :: else ->
     STORE(PUBLISHED, k);
     dirty = 1;
     if :: MODE != LATE_FENCE && MODE != MEMBARRIER -> LOOK :: else fi;

     q = 0;
     do
     :: atomic { q >= RANKS -> break }
     :: atomic { q < RANKS && (q == me || published[q] >= k) -> q++ }     /* polled with success */
     :: q < RANKS && q != me && published[q] < k ->                       /* polled long enough: fall asleep */
        if :: dirty -> LOOK :: else fi;
        seen = bell[me];
        STORE(ASLEEP, q + 1);
        if
        :: MODE == MEMBARRIER || MODE == EARLY_LOOK -> MEMBARRIER_ALL
        :: MODE != MEMBARRIER && MODE != EARLY_LOOK && SLEEPER_FENCE -> FENCE
        :: else
        fi;
        if
        :: published[q] >= k
        :: else ->
           atomic { if :: bell[me] == seen -> blocked[me] = 1 :: else fi };
           if
           :: blocked[me] == 0
           :: MODE == TIMED && blocked[me] -> blocked[me] = 0
           fi
        fi;
        STORE(ASLEEP, 0)
     od;
     if :: dirty -> LOOK :: else fi;                                      /* before the operation returns */
     k++
  od;
  out++
}

#define w (_pid - RANKS)
active [RANKS] proctype drain() {
  byte value;
end:
  do
  :: atomic { buffer[w]?PUBLISHED, value -> published[w] = value }
  :: atomic { buffer[w]?ASLEEP, value -> asleep[w] = value }
  od
}

active proctype check() { out == RANKS }
