/* exchanges.c - what an AllReduce costs a rank, by Keel and by MPI alone, by itself and beside a
 * device that computes for five milliseconds.
 *
 * usage: mpirun -n 2 exchanges keel|raw      prints JSON
 *        mpirun -n N exchanges OP COUNT TIMES    exchanges COUNT floats, for whoever counts bytes */
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "bench.h"

#define DEVICE_TIME 5000 /* microseconds */
#define ROUNDS_MOST 2000
#define ROUNDS_LONG 60

typedef struct rank {
  keel_context *context;
  keel_link *link;
  keel_tensor *member, *one;
  keel_device *device;
  int number;
} rank;

/* ---- the shortest times, but for one in ten ----------------------------------------------------- */

/* An exchange alone, one beside the device's work, and that work alone: in turn, so that all three
 * have the same luck with the machine. */
enum { ALONE, BESIDE, DEVICE, COURSES };

static double times[COURSES][ROUNDS_MOST];

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Microseconds. */
static double p10(int course, int rounds) {
  qsort(times[course], (size_t)rounds, sizeof **times, by_time);
  return times[course][rounds / 10] * 1e-3;
}

static void print_alone(const char *way, double us) {
  printf("{\"way\": \"%s\", \"bytes\": 4, \"alone_us\": %.3f}\n", way, us);
}

static void print_long(const char *way, int64_t count) {
  printf(
      "{\"way\": \"%s\", \"bytes\": %lld, \"alone_us\": %.3f,"
      " \"beside_us\": %.3f, \"device_us\": %.3f}\n",
      way, (long long)count * 4, p10(ALONE, ROUNDS_LONG),
      p10(BESIDE, ROUNDS_LONG), p10(DEVICE, ROUNDS_LONG));
}

static float *ones(int64_t count) {
  float *data =
      aligned_alloc(64, ((size_t)count * sizeof *data + 63) / 64 * 64);
  if (!data) exit(1);
  for (int64_t i = 0; i < count; i++)
    data[i] = 1;
  return data;
}

/* ---- by MPI ---------------------------------------------------------------------------------------- */

static const struct timespec device_time = {.tv_nsec = DEVICE_TIME * 1000};

static double raw_once(const float *from, float *to, int64_t count,
                       int course) {
  MPI_Request request = MPI_REQUEST_NULL;
  double begin = bench_now();
  if (course != DEVICE)
    MPI_Iallreduce(from, to, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
  if (course != ALONE) nanosleep(&device_time, NULL);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return bench_now() - begin;
}

static void raw(int64_t count, int courses, int rounds) {
  float *from = ones(count), *to = ones(count);
  for (int i = 0; i < rounds; i++)
    for (int course = 0; course < courses; course++)
      times[course][i] = raw_once(from, to, count, course);
  free(from);
  free(to);
}

/* ---- by another thread ----------------------------------------------------------------------------- */

typedef struct other {
  sem_t asked, answered;
  bool exchanges, ends;
} other;

static void *answer(void *given) {
  other *at = given;
  float from = 1, to = 0;
  for (;;) {
    MPI_Request request;
    sem_wait(&at->asked);
    if (at->ends) return NULL;
    if (at->exchanges) {
      MPI_Iallreduce(&from, &to, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    sem_post(&at->answered);
  }
}

/* Microseconds to wake a thread and to be woken by it, which is the least that one pays who has
 * another thread call MPI; `exchanges`: while it is awake, that thread exchanges a float. */
static double wake(bool exchanges) {
  other at = {.exchanges = exchanges};
  pthread_t thread;
  sem_init(&at.asked, 0, 0);
  sem_init(&at.answered, 0, 0);
  if (pthread_create(&thread, NULL, answer, &at) != 0) exit(1);
  for (int i = 0; i < ROUNDS_MOST; i++) {
    double begin = bench_now();
    sem_post(&at.asked);
    sem_wait(&at.answered);
    times[ALONE][i] = bench_now() - begin;
  }
  at.ends = true;
  sem_post(&at.asked);
  pthread_join(thread, NULL);
  sem_destroy(&at.asked);
  sem_destroy(&at.answered);
  return p10(ALONE, ROUNDS_MOST);
}

/* ---- by Keel --------------------------------------------------------------------------------------- */

static void open_rank(rank *me) {
  const char *path = NODES_PLUGIN, *option = "nodes.sleeps=5000";
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .plugins = &path,
                                      .plugin_count = 1,
                                      .workers = KEEL_NO_WORKERS,
                                      .options = &option,
                                      .option_count = 1};
  const float one = 1;
  keel_link_facts facts;
  bench_need(keel_open(&params, &me->context));
  bench_need(keel_link_open(me->context, NULL, &me->link));
  bench_need(keel_link_member(me->link, NULL, &me->member));
  bench_need(keel_device_find(me->context, NULL, &me->device));
  bench_need(keel_tensor_create(me->context, KD_F32, 0, NULL, &one, &me->one));
  keel_link_look(me->link, &facts);
  me->number = (int)facts.rank;
}

static void close_rank(rank *me) {
  keel_tensor_release(me->member);
  keel_tensor_release(me->one);
  keel_link_close(me->link);
  keel_close(me->context);
}

/* The exchange of `count` floats, and what the device computes, as far as the course has them. */
static keel_plan *plan_of(rank *me, const char *exchange, int64_t count,
                          int course) {
  keel_builder *b = NULL;
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_link_facts facts;
  keel_link_look(me->link, &facts);
  const keel_attr of = KEEL_INT("size", facts.size);
  bench_need(keel_builder_create(me->context, "exchange", &b));
  keel_value member = keel_builder_resource(b, "member");
  keel_value x = keel_builder_input(b, "x", KD_F32, 1, &count);
  keel_value one = keel_builder_input(b, "one", KD_F32, 0, NULL);
  const keel_value pair[] = {member, x}, both[] = {one, one};
  if (course != DEVICE)
    bench_need(keel_builder_output(
        b, "y", keel_builder_op(b, exchange, &of, 1, pair, 2)));
  if (course != ALONE)
    bench_need(keel_builder_output(
        b, "s", keel_builder_op(b, "Sum", NULL, 0, both, 2)));
  bench_need(keel_builder_finish(b, &program));
  bench_need(keel_plan_create(program, NULL, &plan));
  keel_builder_destroy(b);
  keel_program_release(program);
  return plan;
}

static double run_once(rank *me, keel_plan *plan, keel_tensor *x) {
  keel_tensor *in[] = {me->member, x, me->one}, *out[2] = {NULL};
  uint32_t outputs = keel_plan_output_count(plan);
  double begin = bench_now();
  bench_need(keel_plan_run(plan, in, 3, out, outputs));
  for (uint32_t k = 0; k < outputs; k++)
    bench_need(keel_tensor_wait(out[k]));
  double took = bench_now() - begin;
  for (uint32_t k = 0; k < outputs; k++)
    keel_tensor_release(out[k]);
  return took;
}

static void run(rank *me, const char *exchange, int64_t count, int courses,
                int rounds) {
  keel_plan *plans[COURSES] = {NULL};
  float *data = ones(count);
  keel_tensor *x = NULL;
  for (int course = 0; course < courses; course++)
    plans[course] = plan_of(me, exchange, count, course);
  bench_need(keel_tensor_create(me->context, KD_F32, 1, &count, data, &x));
  for (int i = 0; i < rounds; i++)
    for (int course = 0; course < courses; course++)
      times[course][i] = run_once(me, plans[course], x);
  keel_tensor_release(x);
  for (int course = 0; course < courses; course++)
    keel_plan_release(plans[course]);
  free(data);
}

/* ---- the program ------------------------------------------------------------------------------------ */

static const int64_t long_counts[] = {1 << 18, 1 << 20};
#define LONG_COUNTS (sizeof long_counts / sizeof *long_counts)

static void measure_raw(int *argc, char ***argv) {
  int number = 0, threads = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &threads);
  if (threads < MPI_THREAD_SERIALIZED) exit(1);
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  double woken = wake(false), handed = wake(true);
  raw(1, 1, ROUNDS_MOST);
  if (!number) {
    print_alone("wake", woken);
    print_alone("handed", handed);
    print_alone("raw", p10(ALONE, ROUNDS_MOST));
  }
  for (size_t i = 0; i < LONG_COUNTS; i++) {
    raw(long_counts[i], COURSES, ROUNDS_LONG);
    if (!number) print_long("raw", long_counts[i]);
  }
  MPI_Finalize();
}

static void measure_keel(void) {
  rank me;
  open_rank(&me);
  run(&me, "keel::AllReduce", 1, 1, ROUNDS_MOST);
  if (!me.number) print_alone("keel", p10(ALONE, ROUNDS_MOST));
  for (size_t i = 0; i < LONG_COUNTS; i++) {
    run(&me, "keel::AllReduce", long_counts[i], COURSES, ROUNDS_LONG);
    if (!me.number) print_long("keel", long_counts[i]);
  }
  close_rank(&me);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "raw")) {
    measure_raw(&argc, &argv);
  } else if (argc == 2 && !strcmp(argv[1], "keel")) {
    measure_keel();
  } else if (argc == 4 && strtol(argv[3], NULL, 10) > 0 &&
             strtol(argv[3], NULL, 10) <= ROUNDS_MOST) {
    rank me;
    open_rank(&me);
    run(&me, argv[1], strtol(argv[2], NULL, 10), 1,
        (int)strtol(argv[3], NULL, 10));
    close_rank(&me);
  } else {
    fprintf(stderr, "usage: exchanges keel|raw, or OP COUNT TIMES (up to %d)\n",
            ROUNDS_MOST);
    return 2;
  }
  return 0;
}
