/*
 * Turns of algorithms in message form. docs/protocol.md, section 2.7.
 *
 * In each turn every rank publishes one step. It may show a slice, and may take those of other ranks; who takes from whom
 * is chosen freely here for two ranks, from six patterns for three. Only a taker waits for its giver, and a giver for the takers of what its slot held before. Asked
 * here: is a slot overwritten before all have read it, and does everybody come out? Between two operations all ranks
 * meet (rule A); FIRST_COPY_EARLY lets the next operation's first copy come before that.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef TURNS
#define TURNS 3
#endif
#ifndef AWAIT_READERS    /* 0 must fail: the slot is filled without a wait for its readers */
#define AWAIT_READERS 1
#endif
#ifndef KEEP_READERS     /* 0 must fail from 5 turns on: a turn without a slice makes a rank forget who reads the slot */
#define KEEP_READERS 1
#endif
#ifndef FINISH           /* 0 must fail with FIRST_COPY_EARLY: return without a wait for the readers before the last */
#define FINISH 1
#endif
#ifndef FIRST_COPY_EARLY
#define FIRST_COPY_EARLY 0
#endif

byte slot[RANKS * 2];            /* the slice that the slot holds */
byte steps[RANKS];
byte entered;
bit takes[TURNS * RANKS * RANKS];   /* takes[(turn * RANKS + taker) * RANKS + giver] */
byte out;

#define SLOT(rank, turn) slot[(rank) * 2 + (turn) % 2]
#define TAKES(turn, taker, giver) takes[((turn) * RANKS + (taker)) * RANKS + (giver)]
#define FOR_EACH(statement)                  \
  q = 0;                                     \
  do                                         \
  :: atomic { q < RANKS -> statement; q++ }  \
  :: atomic { q >= RANKS -> break }          \
  od
/* Turn t is published as step t + 1. Who took a slice has read it once it has published the step after. The last slice
   in a slot may be older than two turns. */
#define TOOK(turn, taker) (turn >= 2 && TAKES(turn - 2, taker, me) || KEEP_READERS && turn >= 4 && TAKES(turn - 4, taker, me))
#define READERS_DONE(turn) FOR_EACH(if :: TOOK(turn, q) -> steps[q] >= S :: else fi)
#define GIVES(turn) (TAKES(turn, 0, me) || TAKES(turn, 1, me) || (RANKS > 2 && TAKES(turn, RANKS - 1, me)))

proctype rank(byte me) {
  byte t = 0;
  byte S = 0;
  byte q;

  do
  :: t < TURNS ->
     if
     :: GIVES(t) ->
        if :: AWAIT_READERS -> READERS_DONE(t) :: else fi;
        SLOT(me, t) = t + 1
     :: else
     fi;
     S++; steps[me] = S;
     q = 0;
     do
     :: q < RANKS ->
        if
        :: TAKES(t, me, q) -> steps[q] >= S; assert(SLOT(q, t) == t + 1); assert(SLOT(q, t) == t + 1)
        :: else
        fi;
        q++
     :: else -> break
     od;
     t++
  :: else -> break
  od;
  if :: FINISH -> READERS_DONE(TURNS) :: else fi;
  if :: FIRST_COPY_EARLY -> SLOT(me, TURNS) = TURNS + 1 :: else fi;
  entered++;
  entered == RANKS;
  SLOT(me, TURNS) = TURNS + 1;
  SLOT(me, TURNS + 1) = TURNS + 2;
  out++
}

init {
  byte i;
  atomic {
#if RANKS == 2
    do
    :: i < TURNS * RANKS -> if :: takes[i * RANKS + 1 - i % RANKS] = 1 :: skip fi; i++
    :: else -> break
    od;
#else
    do
    :: i < TURNS ->
       if
       :: TAKES(i, 0, 2) = 1; TAKES(i, 1, 0) = 1; TAKES(i, 2, 1) = 1      /* round the ring */
       :: TAKES(i, 1, 0) = 1; TAKES(i, 2, 0) = 1                          /* to all children */
       :: TAKES(i, 0, 1) = 1; TAKES(i, 0, 2) = 1                          /* from all children */
       :: TAKES(i, 0, 1) = 1; TAKES(i, 1, 0) = 1                          /* a pair, one rank idle */
       :: TAKES(i, 2, 1) = 1
       :: skip
       fi;
       i++
    :: else -> break
    od;
#endif
    i = 0;
    do :: i < RANKS -> run rank(i); i++ :: else -> break od
  };
  out == RANKS
}
