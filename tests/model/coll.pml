/*
 * Collectives: every rank announces, waits for all announcements, acts. docs/protocol.md, sections 2 and 3.
 *
 * Asked here: is an eager slot ever overwritten before all have read it? Is a buffer ever touched after its owner has
 * returned? Does every rank come out (else the search ends in an invalid end state)? Do healthy runs stay healthy?
 * Memory is sequentially consistent here: the barriers of rules E and W are assumed. fail.pml and sleep.pml examine them.
 */
#ifndef RANKS              /* 2 or 3 */
#define RANKS 3
#endif
#ifndef OPERATIONS         /* how many collectives each rank calls */
#define OPERATIONS 3
#endif
#ifndef FAULTS             /* how many aborts, timeouts and crashes may happen in one run */
#define FAULTS 0
#endif
#ifndef DIFFER             /* 1: each rank chooses its calls freely, so that calls may differ */
#define DIFFER 0
#endif

/* The rules; each other value is a variant that must fail. */
#ifndef GENERATIONS        /* of lines and slots; with 1 a slot is overwritten */
#define GENERATIONS 2
#endif
#ifndef WAIT_FOR_ALL       /* 0: a rank waits only for those whose data it needs */
#define WAIT_FOR_ALL 1
#endif
#ifndef QUIET_BEFORE_LEAVE /* 0: a rank that failed leaves at once */
#define QUIET_BEFORE_LEAVE 1
#endif
#ifndef LOOK_BEFORE_TOUCH  /* 0: no look at the error words between 'all announced' and the first touch */
#define LOOK_BEFORE_TOUCH 1
#endif
#ifndef ANY_DEATH_FAILS    /* 1: a dead member fails every wait, not only the waits for it */
#define ANY_DEATH_FAILS 0
#endif

#if RANKS > 3
#error "some conditions below list at most three ranks"
#endif

/* The kinds. */
#define EAGER_ALL 1        /* everybody reads everybody's eager slot */
#define EAGER_BROADCAST 2  /* all read the slot of root 0 */
#define EAGER_REDUCE 3     /* root 0 reads all slots */
#define ZERO_ALL 4         /* zero-copy in two steps: everybody touches everybody, twice */
#define ZERO_BROADCAST 5   /* zero-copy: all touch the root's buffer; only the root waits at the exit */
#define ZERO_GATHER 6      /* zero-copy: the root touches all; the others wait for the root at the exit */

/* What ranks share. */
byte line[RANKS * GENERATIONS];    /* announcement: sequence */
byte call[RANKS * GENERATIONS];    /* announcement: kind */
byte slot[RANKS * GENERATIONS];    /* eager slot: the operation whose data it holds */
byte steps[RANKS];
bit error[RANKS];
bit quiet[RANKS];
bit dead[RANKS];

/* What only the model knows. */
byte agreed[OPERATIONS + 1];       /* the kind of each operation, where ranks do not differ */
byte faults = FAULTS;              /* left to happen */
byte owned_by[RANKS];              /* n while this rank's buffers belong to operation n */
byte out;                          /* ranks that came out */

#define AT(rank) ((rank) * GENERATIONS + n % GENERATIONS)
#define ANY_ERROR (error[0] || error[1] || error[RANKS - 1])
#if ANY_DEATH_FAILS
#define LOST (dead[0] || dead[1] || dead[RANKS - 1])
#else
#define LOST dead[q]
#endif

#define PICK(kind)             \
  if                           \
  :: kind = EAGER_ALL          \
  :: kind = EAGER_BROADCAST    \
  :: kind = EAGER_REDUCE       \
  :: kind = ZERO_ALL           \
  :: kind = ZERO_BROADCAST     \
  :: kind = ZERO_GATHER        \
  fi

/* For each peer q: one atomic step a peer, unless the statement itself waits. */
#define FOR_EACH_PEER(statement)                                       \
  q = 0;                                                               \
  do                                                                   \
  :: atomic { q < RANKS -> if :: q != me -> statement :: else fi; q++ } \
  :: atomic { q >= RANKS -> break }                                    \
  od

/* waitUntil(q, condition): the predicate first, then errors and death; a timeout, an abort or a crash at any time. */
#define WAIT(condition)                                   \
  if                                                      \
  :: condition                                            \
  :: !(condition) && (ANY_ERROR || LOST) -> goto fail     \
  :: !(condition) && faults > 0 -> faults--; goto fail    \
  :: faults > 0 -> faults--; goto crash                   \
  fi

/* A load or a store in q's buffer: it must belong to this operation. Meanwhile this process may crash, or another of
   its threads may abort the communicator, which does not stop the access that is under way. */
#define BELONGS(q) (owned_by[q] == n || dead[q])
#define TOUCH(q)                                                         \
  if                                                                     \
  :: assert(BELONGS(q))                                                  \
  :: faults > 0 -> faults--; goto crash                                  \
  :: faults > 0 -> faults--; error[me] = 1; assert(BELONGS(q))           \
  fi

proctype rank(byte me) {
  byte n = 1;       /* the operation */
  byte base = 0;    /* steps before this operation */
  byte q, kind;
  bit bad;

  do
  :: n > OPERATIONS -> break
  :: else ->
     atomic {
       if :: ANY_ERROR -> goto entry_fail :: else fi;
       if :: DIFFER -> PICK(kind) :: else -> kind = agreed[n] fi
     };
     slot[AT(me)] = n;
     atomic {       /* one line, one release store */
       owned_by[me] = n; call[AT(me)] = kind; line[AT(me)] = n;
       q = 0; bad = 0
     };

     /* Rule A: wait for every announcement. */
     do
     :: atomic { q < RANKS ->
          if
          :: WAIT_FOR_ALL || kind == EAGER_ALL || kind >= ZERO_ALL ||
             (kind == EAGER_BROADCAST && q == 0) || (kind == EAGER_REDUCE && me == 0) ->
               WAIT(line[AT(q)] >= n);
               bad = bad || (WAIT_FOR_ALL && call[AT(q)] != kind)
          :: else
          fi;
          q++ }
     :: atomic { q >= RANKS -> break }
     od;

     /* Rules D and E: a mismatch, or an error that someone has set, stops this rank before it touches anything. */
     if :: bad || (LOOK_BEFORE_TOUCH && ANY_ERROR) -> goto fail :: else fi;

     if
     :: kind == EAGER_ALL ->
          FOR_EACH_PEER(assert(slot[AT(q)] == n))
     :: kind == EAGER_BROADCAST ->
          if :: me != 0 -> assert(slot[AT(0)] == n) :: else fi
     :: kind == EAGER_REDUCE ->
          if :: me == 0 -> FOR_EACH_PEER(assert(slot[AT(q)] == n)) :: else fi
     :: kind == ZERO_ALL ->
          FOR_EACH_PEER(TOUCH(q)); steps[me] = base + 1; FOR_EACH_PEER(WAIT(steps[q] >= base + 1));
          FOR_EACH_PEER(TOUCH(q)); steps[me] = base + 2; FOR_EACH_PEER(WAIT(steps[q] >= base + 2));
          base = base + 2
     :: kind == ZERO_BROADCAST ->
          if :: me != 0 -> TOUCH(0); TOUCH(0) :: else fi;
          steps[me] = base + 1;
          if :: me == 0 -> FOR_EACH_PEER(WAIT(steps[q] >= base + 1)) :: else fi;
          base = base + 1
     :: kind == ZERO_GATHER ->
          if :: me == 0 -> FOR_EACH_PEER(TOUCH(q); TOUCH(q)) :: else fi;
          steps[me] = base + 1;
          if :: me != 0 -> q = 0; WAIT(steps[0] >= base + 1) :: else fi;
          base = base + 1
     fi;
     atomic { owned_by[me] = 0; n++ }     /* the call returns: the buffers are the caller's again */
  od;
  goto done;

fail:
  assert(FAULTS > 0 || DIFFER);           /* a rank that exits after its last call harms nobody */
  error[me] = 1;
  quiet[me] = 1;                          /* it touches nothing any more; here stands the asymmetric barrier */
  q = 0; bad = 0;
  do
  :: atomic { q < RANKS -> bad = bad || line[AT(q)] != n || call[AT(q)] != kind; q++ }
  :: atomic { q >= RANKS -> break }
  od;
  if
  :: QUIET_BEFORE_LEAVE && !bad && kind >= ZERO_ALL ->     /* all have entered: somebody may be at its buffers */
       FOR_EACH_PEER((steps[q] >= base + 1 + (kind == ZERO_ALL) || quiet[q] || dead[q]))
  :: else
  fi;
  owned_by[me] = 0;
  goto done;

crash:
  dead[me] = 1;
  goto done;

entry_fail:
  error[me] = 1;
  quiet[me] = 1;

done:
  atomic { dead[me] = 1; out++ }          /* the process exits, without destroying anything */
}

init {
  byte i = 1;
  atomic {
    do :: i <= OPERATIONS -> PICK(agreed[i]); i++ :: else -> break od;
    i = 0;
    do :: i < RANKS -> run rank(i); i++ :: else -> break od
  };
  out == RANKS
}
