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

typedef struct rank {
  keel_context *context;
  keel_link *link;
  keel_tensor *member, *one;
  keel_device *device;
  int number;
} rank;

/* ---- the shortest times, but for one in ten ----------------------------------------------------- */

static double times[ROUNDS_MOST];

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double p10(int rounds) {
  qsort(times, (size_t)rounds, sizeof *times, by_time);
  return times[rounds / 10] * 1e-3;
}

static int rounds_of(int64_t count) {
  return count < 1024 ? ROUNDS_MOST : 60;
}

static float *ones(int64_t count) {
  float *data =
      aligned_alloc(64, ((size_t)count * sizeof *data + 63) / 64 * 64);
  if (!data) exit(1);
  for (int64_t i = 0; i < count; i++)
    data[i] = 1;
  return data;
}

static void print(const char *way, int64_t count, double alone, double beside,
                  double device) {
  printf(
      "{\"way\": \"%s\", \"bytes\": %lld, \"alone_us\": %.3f,"
      " \"beside_us\": %.3f, \"device_us\": %.3f}\n",
      way, (long long)count * 4, alone, beside, device);
}

/* ---- by MPI ---------------------------------------------------------------------------------------- */

/* Microseconds; `beside`: while a device computes. */
static double raw(int64_t count, bool beside) {
  const struct timespec device = {.tv_nsec = DEVICE_TIME * 1000};
  float *from = ones(count), *to = ones(count);
  int rounds = beside ? 60 : rounds_of(count);
  for (int i = 0; i < rounds; i++) {
    MPI_Request request;
    double begin = bench_now();
    MPI_Iallreduce(from, to, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    if (beside) nanosleep(&device, NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    times[i] = bench_now() - begin;
  }
  free(from);
  free(to);
  return p10(rounds);
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
    times[i] = bench_now() - begin;
  }
  at.ends = true;
  sem_post(&at.asked);
  pthread_join(thread, NULL);
  sem_destroy(&at.asked);
  sem_destroy(&at.answered);
  return p10(ROUNDS_MOST);
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

/* The exchange of `count` floats, if it is named, and what the device computes. */
static keel_plan *plan_of(rank *me, const char *exchange, int64_t count,
                          bool beside) {
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
  if (exchange)
    bench_need(keel_builder_output(
        b, "y", keel_builder_op(b, exchange, &of, 1, pair, 2)));
  if (beside || !exchange)
    bench_need(keel_builder_output(
        b, "s", keel_builder_op(b, "Sum", NULL, 0, both, 2)));
  bench_need(keel_builder_finish(b, &program));
  bench_need(keel_plan_create(program, NULL, &plan));
  keel_builder_destroy(b);
  keel_program_release(program);
  return plan;
}

static double run(rank *me, const char *exchange, int64_t count, bool beside,
                  int rounds) {
  keel_plan *plan = plan_of(me, exchange, count, beside);
  float *data = ones(count);
  keel_tensor *x = NULL, *out[2] = {NULL};
  uint32_t outputs = keel_plan_output_count(plan);
  bench_need(keel_tensor_create(me->context, KD_F32, 1, &count, data, &x));
  keel_tensor *in[] = {me->member, x, me->one};
  for (int i = 0; i < rounds; i++) {
    double begin = bench_now();
    bench_need(keel_plan_run(plan, in, 3, out, outputs));
    for (uint32_t k = 0; k < outputs; k++)
      bench_need(keel_tensor_wait(out[k]));
    times[i] = bench_now() - begin;
    for (uint32_t k = 0; k < outputs; k++)
      keel_tensor_release(out[k]);
  }
  keel_tensor_release(x);
  keel_plan_release(plan);
  free(data);
  return p10(rounds);
}

/* ---- the program ------------------------------------------------------------------------------------ */

static const int64_t counts[] = {1, 1 << 18, 1 << 20};

static void measure_raw(int *argc, char ***argv) {
  const struct timespec device = {.tv_nsec = DEVICE_TIME * 1000};
  int number = 0, threads = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &threads);
  if (threads < MPI_THREAD_SERIALIZED) exit(1);
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  for (int i = 0; i < 60; i++) {
    double begin = bench_now();
    nanosleep(&device, NULL);
    times[i] = bench_now() - begin;
  }
  double slept = p10(60), woken = wake(false), handed = wake(true);
  if (!number) {
    print("wake", 1, woken, woken, slept);
    print("handed", 1, handed, handed, slept);
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    double alone = raw(counts[i], false), beside = raw(counts[i], true);
    if (!number) print("raw", counts[i], alone, beside, slept);
  }
  MPI_Finalize();
}

static void measure_keel(void) {
  rank me;
  open_rank(&me);
  double device = run(&me, NULL, 1, true, 60);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    int64_t count = counts[i];
    double alone = run(&me, "keel::AllReduce", count, false, rounds_of(count));
    double beside = run(&me, "keel::AllReduce", count, true, 60);
    if (!me.number) print("keel", count, alone, beside, device);
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
    run(&me, argv[1], strtol(argv[2], NULL, 10), false,
        (int)strtol(argv[3], NULL, 10));
    close_rank(&me);
  } else {
    fprintf(stderr, "usage: exchanges keel|raw, or OP COUNT TIMES (up to %d)\n",
            ROUNDS_MOST);
    return 2;
  }
  return 0;
}
