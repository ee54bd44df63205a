/* replay.h - what programs share that run a script by the raw API. */
#ifndef KEEL_FAMILIES_REPLAY_H
#define KEEL_FAMILIES_REPLAY_H

#include "families/bench/bench.h"
#include "families/script_read.h"
#include "system/save.h"

/* What was copied to the host last. */
static void replay_write(const char *path, const void *data, uint64_t size) {
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  if (good) fwrite(data, 1, (size_t)size, save.file);
  if (!good || !keel_save_end(&save, true))
    replay_fail("its result can't be written");
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
  bench_print_top(result, size / sizeof(float));
  printf("best %.3f ms a run\n", best * 1e-6);
  replay_free(&s);
  return 0;
}

#endif /* KEEL_FAMILIES_REPLAY_H */
