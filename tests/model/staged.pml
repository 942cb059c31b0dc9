/*
 * Staged slices. docs/protocol.md, section 2.4.
 *
 * A step is published by all and awaited by all. The number of the slice, not the operation, selects the input slot,
 * so the first copy-in may come before the announcement. Asked here: is a slot ever overwritten before all have read it?
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef INPUT_SLOTS      /* 1 must fail */
#define INPUT_SLOTS 2
#endif
#define OPERATIONS 2

/* The kinds. */
#define TWO_STEPS 1      /* all-reduce, reduce, reduce-scatter: through the result slot */
#define ONE_STEP 2       /* all-gather, broadcast, scatter, gather, all-to-all */

byte input[RANKS * INPUT_SLOTS];    /* the slice that the slot holds */
byte result[RANKS];
byte steps[RANKS];
byte kind[OPERATIONS];
byte out;

#define INPUT(rank) input[(rank) * INPUT_SLOTS + g % INPUT_SLOTS]
#define FOR_EACH(statement)                  \
  q = 0;                                     \
  do                                         \
  :: atomic { q < RANKS -> statement; q++ }  \
  :: atomic { q >= RANKS -> break }          \
  od
#define STEP S++; steps[me] = S; FOR_EACH(steps[q] >= S)

proctype rank(byte me) {
  byte g = 1;            /* the slice, counted over all operations */
  byte S = 0;            /* steps, counted over all operations */
  byte operation = 0;
  byte q;

  do
  :: operation < OPERATIONS ->
     INPUT(me) = g;
     STEP;
     if
     :: kind[operation] == TWO_STEPS ->
        FOR_EACH(assert(INPUT(q) == g));
        result[me] = g;
        STEP;
        FOR_EACH(assert(result[q] == g))
     :: else ->
        FOR_EACH(assert(INPUT(q) == g))
     fi;
     g++;
     if :: g % 2 == 1 -> operation++ :: else fi      /* two slices an operation */
  :: else -> break
  od;
  out++
}

init {
  byte i;
  atomic {
    if :: kind[0] = TWO_STEPS :: kind[0] = ONE_STEP fi;
    if :: kind[1] = TWO_STEPS :: kind[1] = ONE_STEP fi;
    do :: i < RANKS -> run rank(i); i++ :: else -> break od
  };
  out == RANKS
}
