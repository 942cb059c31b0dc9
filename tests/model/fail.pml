/*
 * One zero-copy operation under TSO store buffers, with ranks that fail. docs/protocol.md, section 3.3 (rule E).
 *
 * Asked here: does anybody touch the buffer of a rank that has left? Does everybody come out?
 */
#ifndef RANKS      /* 2 or 3 */
#define RANKS 3
#endif
#ifndef FAULTS     /* how many ranks may time out or abort */
#define FAULTS 2
#endif
#define NO_BARRIER 0     /* must fail */
#define BOTH_FENCE 1     /* a fence in every rank: correct, but everybody pays */
#define MEMBARRIER 2     /* chosen: only the rank that fails pays, by membarrier */
#ifndef MODE
#define MODE MEMBARRIER
#endif

#if RANKS > 3
#error "some conditions below list at most three ranks"
#endif

byte line[RANKS];
byte steps[RANKS];
bit error[RANKS];
bit quiet[RANKS];
bit inside[RANKS];       /* this rank's buffers belong to the operation */
byte faults = FAULTS;    /* left to happen */
byte out;                /* ranks that came out */

/* A store waits in the FIFO store buffer of its rank until drain() carries it out. All stores write a 1. */
#define LINE 0
#define ERROR 1
#define QUIET 2
#define STEPS 3
chan buffer[RANKS] = [4] of { byte };
#define STORE(word) buffer[me]!word
#define FENCE empty(buffer[me])
#define MEMBARRIER_ALL empty(buffer[0]) && empty(buffer[1]) && empty(buffer[RANKS - 1])

#define me _pid
#define ANY_ERROR (error[0] || error[1] || error[RANKS - 1])

#define WAIT(condition)                                   \
  if                                                      \
  :: condition                                            \
  :: !(condition) && ANY_ERROR -> goto fail               \
  :: !(condition) && faults > 0 -> faults--; goto fail    \
  fi

#define FOR_EACH_PEER(statement)                                       \
  q = 0;                                                               \
  do                                                                   \
  :: atomic { q < RANKS -> if :: q != me -> statement :: else fi; q++ } \
  :: atomic { q >= RANKS -> break }                                    \
  od

active [RANKS] proctype rank() {
  byte q;
  bit all = 1;

  inside[me] = 1;
  STORE(LINE);
  FOR_EACH_PEER(WAIT(line[q]));
  if :: MODE == BOTH_FENCE -> FENCE :: else fi;

  /* The look at the bells. */
  q = 0;
  do
  :: atomic { q < RANKS && q != me -> if :: error[q] -> goto fail :: else fi; q++ }
  :: q == me -> q++
  :: q >= RANKS -> break
  od;

  FOR_EACH_PEER(assert(inside[q]));       /* the first touch ... */
  FOR_EACH_PEER(assert(inside[q]));       /* ... and the last */
  STORE(STEPS);
  FOR_EACH_PEER(WAIT(steps[q]));
  goto leave;

fail:
  STORE(ERROR);
  STORE(QUIET);
  if
  :: MODE == BOTH_FENCE -> FENCE
  :: MODE == MEMBARRIER -> MEMBARRIER_ALL
  :: else
  fi;
  FOR_EACH_PEER(all = all && line[q]);
  if :: all -> FOR_EACH_PEER((steps[q] || quiet[q])) :: else fi;

leave:
  inside[me] = 0;
  out++
}

#define w (_pid - RANKS)
active [RANKS] proctype drain() {
end:
  do
  :: atomic { buffer[w]?LINE -> line[w] = 1 }
  :: atomic { buffer[w]?ERROR -> error[w] = 1 }
  :: atomic { buffer[w]?QUIET -> quiet[w] = 1 }
  :: atomic { buffer[w]?STEPS -> steps[w] = 1 }
  od
}

active proctype check() { out == RANKS }
