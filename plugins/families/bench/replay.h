/* replay.h - what programs share that run a script by the raw API. */
#ifndef KEEL_FAMILIES_REPLAY_H
#define KEEL_FAMILIES_REPLAY_H

#include <time.h>

#include "families/script_read.h"

/* The largest five of the f32s that were copied to the host last, and the best time
 * of a run. */
static void replay_print(const float *values, uint64_t count, double best) {
  uint64_t taken[5];
  printf("top 5 of the last copy:");
  for (int k = 0; k < 5 && (uint64_t)k < count; k++) {
    uint64_t most = UINT64_MAX;
    for (uint64_t i = 0; i < count; i++) {
      int before = 0;
      for (int j = 0; j < k; j++)
        before |= taken[j] == i;
      if (!before && (most == UINT64_MAX || values[i] > values[most])) most = i;
    }
    taken[k] = most;
    printf(" %llu (%.4f)", (unsigned long long)most, (double)values[most]);
  }
  printf("\nbest %.3f ms a run\n", best * 1e-6);
}

/* What was copied to the host last. */
static void replay_write(const char *path, const void *data, uint64_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, (size_t)size, file) != (size_t)size ||
      fclose(file) != 0)
    replay_fail("its result can't be written");
}

static double replay_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A program that runs a script by an API. */
typedef struct replay_api {
  const char *name; /* the program's */
  /* Opens the device, and makes what commands need. */
  void (*prepare)(const replay_script *script);
  /* Runs the commands from `first` on, and waits; returns nanoseconds. */
  double (*run_from)(const replay_script *script, uint32_t first);
  /* What was copied to the host last, in bytes. */
  const void *(*result)(uint64_t *out_size);
} replay_api;

/* Its main: all of a script once, then the last run again and again. */
static int replay_main(const replay_api *api, int argc, char **argv) {
  long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 10;
  double best = 1e30;
  uint64_t size = 0;
  if (argc < 2 || rounds < 1) {
    fprintf(stderr, "usage: %s SCRIPT [ROUNDS [FILE]]\n", api->name);
    return 2;
  }
  replay_script s = replay_read(argv[1]);
  api->prepare(&s);
  api->run_from(&s, 0);
  for (long i = 0; i < rounds; i++) {
    double time = api->run_from(&s, s.last_run);
    if (time < best) best = time;
  }
  const void *result = api->result(&size);
  if (argc > 3) replay_write(argv[3], result, size);
  replay_print(result, size / sizeof(float), best);
  replay_free(&s);
  return 0;
}

#endif /* KEEL_FAMILIES_REPLAY_H */
