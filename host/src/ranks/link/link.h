/* link.h - ranks and their link, from inside. */
#ifndef KEEL_INSIDE_LINK_H
#define KEEL_INSIDE_LINK_H

#include <keel/link.h>
#include <keel/link_module.h>
#include <pthread.h>

#include "values/member.h"
#include "values/tensor.h"

/* A plugin's group that this rank's device has joined, with those of other ranks (joined.c). */
typedef struct keel_link_group {
  kd_group *handle; /* NULL: there is none, and values go through host memory */
  uint32_t size, rank;
} keel_link_group;

/* The facts of one rank that all ranks share (joined.c). */
typedef struct keel_link_card keel_link_card;

/* The state of copies of long values (pieces.c). */
typedef struct keel_link_lane keel_link_lane;

/* The state of exchanges from device to device. */
typedef struct keel_link_devices {
  bool agreed;           /* the ranks have compared theirs */
  keel_link_card *cards; /* of all ranks */
  /* this rank's, pinned, of the plugin that all ranks have; NULL: they have none in common */
  keel_device *device;
  kd_stream *stream;        /* of exchanges alone, besides the device's own */
  kd_event *before, *after; /* the work that makes a value; the exchange */
  keel_link_group all;
  keel_link_group
      machine;   /* where there is none of all: of those of this machine */
  void *between; /* the module's communicator of equal local ranks */
  bool pieces; /* all ranks have devices whose long values are sent in chunks */
  bool stuck;  /* aborted work has not ended */
} keel_link_devices;

/* A subgroup of the ranks, as an exchange names it: made once, by all ranks in one order. */
typedef struct keel_link_part {
  struct keel_link_part *next;
  uint32_t size;
  int64_t rank_count;
  int64_t *ranks; /* of the exchange */
  void *comm;     /* the module's communicator, of this rank's subgroup */
  uint32_t root;  /* the subgroup's first rank */
  keel_link_group group;
} keel_link_part;

/* A task of the link's thread. */
typedef struct keel_link_job {
  keel_waiter arrival; /* must be first: cast from keel_waiter */
  struct keel_link_job *next;
  keel_link *link;
  /* the exchange's number, from 1; a Send's or Receive's among those of the two ranks; 0: of
   * keel_link_gather */
  uint64_t number;
  keel_exchange what;
  const char *name; /* of the op; stays as long as the process */
  char where[96];
  keel_device *device;
  keel_tensor *value, *promise; /* of an exchange */
  bool arrived;                 /* with the link's lock; the value is known */
  /* of a Send or Receive that has begun: the memory that the module reads or writes */
  keel_tensor *memory;
  void *request;
  uint64_t began;
  /* of keel_link_gather, which waits for `ended` */
  const void *given;
  void *taken;
  uint64_t size;
  bool ended;
  keel_status status;
} keel_link_job;

struct keel_link {
  keel_context *context;
  void *library; /* dlopen's */
  char *path;
  const keel_link_table *mpi;
  keel_link_world world;
  uint64_t timeout;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  keel_link_job *first, **last; /* in order */
  uint64_t posted;              /* exchanges so far */
  /* Sends and Receives that the thread has not seen; and how many there were, by rank */
  keel_link_job *pairs, **last_pair;
  uint64_t *sent, *received;
  bool news; /* a value arrived, or a task was posted */
  /* threads that wake the link's thread without the lock: the link is not freed meanwhile */
  _Atomic uint32_t wakers;
  _Atomic uint32_t pair_count; /* Sends and Receives that have not ended */
  /* JOINED: the thread has joined, and will set OPENED; GIVEN_UP: the opening call no longer waits,
   * and the thread must not touch the context */
  enum { OPENING, JOINED, OPENED, GIVEN_UP } opening;
  bool stop;
  keel_status open_status;
  keel_tensor *failure; /* why the link has failed */
  keel_tensor
      *spare; /* "out of memory", made before: if no failure can be made */
  keel_tensor *lost; /* why a run has left exchanges out; the link will fail */
  const char
      *last_words; /* of keel_link_abort, which does not return: borrowed */
  int last_status;
  uint32_t members; /* the last one frees the link, once it is closed */
  bool closed;
  bool
      crowded; /* ranks share cores: a waiting thread yields, and then sleeps */
  _Atomic uint64_t exchanges, bytes, waited;
  _Atomic uint64_t direct, levels, pieces;
  /* the thread's own */
  keel_link_devices devices;
  keel_link_lane *lane;
  keel_link_part *parts;
  keel_link_job *waiting_pairs; /* Sends and Receives, begun or not */
  uint32_t pairs_under_way;
  void *pair_comm; /* of these alone */
  uint32_t busy;   /* exchanges under way */
  uint64_t busy_since;
  uint64_t position; /* the exchange that it is in, or will be next */
  bool inside, gathers;
  bool left;      /* it waits for the others to leave, too */
  uint64_t heard; /* when it last received notes while idle */
  char at[128];   /* which one that is */
  void *leaving;  /* the module's, of all ranks: for that */
};

/* The least limit of joining in nanoseconds, with any deadline: processes start and open their
 * devices at different times. A test changes it. */
extern uint64_t keel_link_join_least;

/* Seconds after which keel_link_abort no longer waits for a link's thread that is stuck. A test
 * changes it. */
extern time_t keel_link_abort_most;

/* Frees it, once its thread and all members have ended. */
void keel_link_free(keel_link *link);

/* Posts a job, which is the thread's then. Returns the link's failure, if there is one. */
keel_status keel_link_post(keel_link *link, keel_link_job *job);

void keel_link_drop_job(keel_link_job *job);

/* The thread: opens the module, runs posted tasks, closes. */
void *keel_link_thread(void *self);

/* Makes the link fail: all tasks, posted now or later. The first failure stays. On the thread
 * alone; notifies other ranks if `tell` is set. */
void keel_link_fail(keel_link *link, keel_status status, bool tell);

/* The module's message of an error. */
keel_status keel_link_error(const keel_link *link, int error, const char *what);

/* Fails the link if a run has left exchanges out (keel_member.lose). On the thread alone. */
void keel_link_notice_lost(keel_link *link);

/* ---- notes between ranks: notes.c, on the thread alone ------------------------------- */

/* Receives the notes of other ranks, and answers. Returns whether the link has failed. */
bool keel_link_hear(keel_link *link);

/* This rank has waited too long: asks all ranks for their positions, and sets these as this
 * thread's failure. */
keel_status keel_link_ask(keel_link *link);

/* Notifies all ranks that this one has failed, with this thread's message. */
void keel_link_tell_failure(keel_link *link, keel_status status);

/* Receives notes for some seconds; rank 0 ends all ranks when it gets last words. */
void keel_link_hear_last(keel_link *link, int seconds);

/* Prints "rank 1: " and the text on standard error, and waits until the launcher has read it. */
void keel_link_print_last(const char *text, uint32_t rank);

/* Sends rank 0 the last words, and ends all ranks. Does not return. */
void keel_link_end(keel_link *link);

/* ---- exchanges: exchange.c, on the thread alone ----------------------------------- */

/* Runs an exchange whose value is known; resolves its promise. */
void keel_link_exchange(keel_link *link, keel_link_job *job);

/* Runs operations of the module concurrently, until all have ended, this rank's time is over, or
 * the link has failed. */
keel_status keel_link_run(keel_link *link, const keel_link_call *calls,
                          uint32_t count);

/* Counts the time in which exchanges are under way: one begins, or ends. */
void keel_link_busy(keel_link *link, bool begins);

/* Yields to others between two tests whether something has ended. asked: the number of earlier
 * tests. */
void keel_link_rest(const keel_link *link, uint64_t asked);

/* Keeps a tensor as long as the process: an operation that has not ended may use its memory. */
void keel_link_abandon(keel_tensor *tensor);

/* Gathers bytes of the ranks of a communicator (NULL: of all). */
keel_status keel_link_collect(keel_link *link, void *comm, uint32_t ranks,
                              const void *given, uint64_t size, void *taken);

/* Called between two tests whether an operation has ended that began then; this is test number
 * `asked`. Receives other ranks' notes, and steps Sends and Receives. Returns KD_OK: test again; or
 * the link's failure. */
keel_status keel_link_between(keel_link *link, uint32_t asked, uint64_t began);

/* This rank's subgroup in an exchange; NULL: all ranks are one. All ranks call it. */
keel_status keel_link_find_part(keel_link *link, const keel_exchange *what,
                                keel_link_part **out_part);

/* The rank, among all, whose value a Broadcast sends. */
uint32_t keel_link_root(const keel_link_part *part, const keel_exchange *what);

/* The output of an exchange among `size` ranks for a value. */
keel_status keel_link_type_of(const keel_exchange *what, uint32_t size,
                              const keel_type *type,
                              const keel_type **out_type);

/* ---- Send and Receive: pairs.c, on the thread alone -------------------------------- */

/* Begins messages that can begin, and ends those that are done. A failure is the link's. */
void keel_link_step_pairs(keel_link *link);

/* The Send or Receive that has been under way longest; NULL: none is. */
const keel_link_job *keel_link_oldest_pair(const keel_link *link);

/* "Receive "x" from rank 0". */
void keel_link_pair_text(const keel_link_job *job, char *text, size_t size);

/* ---- from device to device: joined.c, direct.c; on the thread alone ----------------------- */

/* The ranks agree whether their devices, `device` here, can join groups, and join that of all
 * ranks. Once; all ranks call it at their first exchange among all. */
keel_status keel_link_agree(keel_link *link, keel_device *device);

/* Joins the group of a subgroup, if the ranks' devices can. */
keel_status keel_link_join_part(keel_link *link, keel_link_part *part);

/* Leaves all groups. */
void keel_link_leave(keel_link *link);

/* Runs an exchange whose value is known. KD_UNIMPLEMENTED, on all ranks: it must be staged through
 * the host. */
keel_status keel_link_direct(keel_link *link, const keel_link_job *job,
                             keel_tensor **out_tensor);

/* Runs a long one through host memory, in chunks. KD_UNIMPLEMENTED, on all ranks: it must be sent
 * as a whole. pieces.c. */
keel_status keel_link_pieces(keel_link *link, const keel_link_job *job,
                             keel_tensor **out_tensor);
void keel_link_drop_lane(keel_link *link);

#endif /* KEEL_INSIDE_LINK_H */
