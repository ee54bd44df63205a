/* run_results.c - results of `keel run`: compared, saved and printed, with its profile. */
#include <errno.h>
#include <sys/stat.h>

#include "defs/small.h"
#include "run.h"
#include "system/printable.h"

int run_compare(const run_arguments *all, run_session *run, bool *agree,
                char (*texts)[256]) {
  for (uint32_t i = 0; i < all->expects.count; i++) {
    keel_port port;
    keel_tensor *want = NULL;
    if (i >= run->output_count) {
      fprintf(stderr,
              "keel run: the model has %u outputs; \"%s\" is too many\n",
              run->output_count, shown(all->expects.words[i]));
      return EXIT_USAGE;
    }
    keel_plan_output(run->plan, i, &port);
    if (keel_value_load(run->context, all->expects.words[i],
                        run_file_kind(&port), &want) != KD_OK)
      return complain();
    agree[i] = values_agree(run->outputs[i], want, all->within, texts[i], 256);
    keel_tensor_release(want);
  }
  return 0;
}

typedef char file_name[256];

static bool run_results_is_taken(file_name *names, uint32_t count,
                                 uint32_t index) {
  for (uint32_t i = 0; i < count; i++)
    if (i != index && !strcmp(names[i], names[index])) return true;
  return false;
}

/* The outputs' names without what would lead out of the folder, and no two the same: the
 * later one has a number then. */
static void choose_names(const run_session *run, file_name *names) {
  for (uint32_t i = 0; i < run->output_count; i++) {
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    snprintf(names[i], sizeof *names, "%.200s",
             *port.name ? port.name : "output");
    for (char *at = names[i]; *at; at++)
      if (*at == '/') *at = '_';
  }
  for (uint32_t i = 1; i < run->output_count; i++) {
    file_name own;
    bool clashes = run_results_is_taken(names, i, i);
    memcpy(own, names[i], sizeof own);
    for (unsigned n = 2; clashes; n++) {
      snprintf(names[i], sizeof *names, "%.200s-%u", own, n);
      clashes = run_results_is_taken(names, run->output_count, i);
    }
  }
}

static int save_output(const run_arguments *all, run_session *run,
                       uint32_t index, const char *name) {
  char path[4096];
  keel_port port;
  keel_tensor *output = run->outputs[index];
  keel_plan_output(run->plan, index, &port);
  int size = snprintf(path, sizeof path, "%s/%s.npy", all->output, name);
  if (size < 0 || (size_t)size >= sizeof path) {
    fprintf(stderr, "keel run: --output: the path %.60s... is too long\n",
            all->output);
    return 1;
  }
  if (keel_value_save(output, path) != KD_OK) return complain();
  kd_dtype dtype = keel_tensor_dtype(output);
  if (dtype == KD_BF16 || onnx_is_small(dtype))
    fprintf(stderr,
            "keel run: output %s is %s, and %s has it as f32: .npy has no"
            " %s\n",
            shown(port.name), kd_dtype_name(dtype), shown(path),
            kd_dtype_name(dtype));
  return 0;
}

int run_save(const run_arguments *all, run_session *run) {
  static file_name names[RUN_PORTS];
  keel_link_facts facts = {0};
  if (run->link) keel_link_look(run->link, &facts);
  if (!all->output || facts.rank) return 0; /* rank 0's are there */
  if (mkdir(all->output, 0777) != 0 && errno != EEXIST) {
    fprintf(stderr, "keel run: %s: %s\n", shown(all->output), strerror(errno));
    return 1;
  }
  choose_names(run, names);
  for (uint32_t i = 0; i < run->output_count; i++) {
    int failed = save_output(all, run, i, names[i]);
    if (failed) return failed;
  }
  return 0;
}

/* By the device's clock, if it has one. */
static uint64_t time_of(const keel_profile_line *line) {
  return line->timed ? line->device_time : line->time;
}

static int slowest_first(const void *a, const void *b) {
  uint64_t x = time_of(a), y = time_of(b);
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Shares of the time from the first run that counts to the end of the last. */
static void print_devices(run_session *run) {
  keel_profile_device d;
  for (uint32_t i = 0; keel_plan_profile_device(run->plan, i, &d) == KD_OK;
       i++) {
    if (!i)
      printf("\n%-10s %7s %12s %12s %12s %9s\n", "device", "calls",
             "kernels ms", "copies ms", "idle ms", "MiB moved");
    printf("%-10s %7llu %12.3f %12.3f %12.3f %9.2f  %s\n", d.name,
           (unsigned long long)d.calls, (double)d.kernels * 1e-6,
           (double)d.copies * 1e-6, (double)d.idle * 1e-6,
           (double)d.bytes / (1u << 20),
           d.timed ? "by its clock" : "as the host saw it");
  }
}

static void print_lines(const keel_profile_line *lines, uint32_t count,
                        double total) {
  printf("%9s %6s %6s %9s %9s  %-8s %-20s %s\n", "ms", "%", "calls", "host ms",
         "copies ms", "device", "op", "node and types of its inputs");
  for (uint32_t i = 0; i < count && lines[i].calls; i++)
    printf("%9.3f %6.2f %6llu %9.3f %9.3f  %-8s %-20s %s %s\n",
           (double)time_of(&lines[i]) * 1e-6,
           total > 0 ? 100 * (double)time_of(&lines[i]) / total : 0,
           (unsigned long long)lines[i].calls, (double)lines[i].time * 1e-6,
           (double)lines[i].copies * 1e-6, lines[i].device, shown(lines[i].op),
           shown(lines[i].node), shown(lines[i].types));
}

/* Communication that computation did not overlap: on a device with a clock, at most its idle
 * time. */
static uint64_t bare_time(const run_session *run,
                          const keel_profile_exchanges *times) {
  keel_profile_device d;
  uint64_t bare = times->bare;
  for (uint32_t i = 0; keel_plan_profile_device(run->plan, i, &d) == KD_OK; i++)
    if (d.timed && d.idle < bare) bare = d.idle;
  return bare;
}

static void print_exchanges(const run_session *run) {
  keel_profile_exchanges times;
  keel_plan_profile_exchanges(run->plan, &times);
  if (!times.calls) return;
  printf("%9.3f ms of exchanges; %.3f of them not overlapped by computation\n",
         (double)times.time * 1e-6, (double)bare_time(run, &times) * 1e-6);
}

static void print_profile(run_session *run) {
  uint32_t count = 0, used = 0;
  keel_profile_line line;
  while (keel_plan_profile_line(run->plan, count, &line) == KD_OK)
    count++;
  keel_profile_line *lines = calloc(count + 1, sizeof *lines);
  double total = 0, timed = 0;
  if (!lines) return;
  for (uint32_t i = 0; i < count; i++) {
    keel_plan_profile_line(run->plan, i, &lines[used]);
    total += (double)time_of(&lines[used]);
    if (lines[used].timed) timed += (double)lines[used].device_time;
    used += lines[used].calls > 0;
  }
  qsort(lines, used, sizeof *lines, slowest_first);
  print_lines(lines, used, total);
  printf("%9.3f ms in ops", total * 1e-6);
  if (timed > 0)
    printf(
        "; %.3f of them by devices' clocks, where host ms is the time of the "
        "launches",
        timed * 1e-6);
  printf("\n");
  free(lines);
  print_exchanges(run);
  print_devices(run);
}

/* Of a model with open sizes. */
static void print_versions(keel_plan *plan) {
  keel_version_counts c;
  keel_plan_versions(plan, &c);
  if (c.made)
    printf(
        "versions for single sizes: %llu made in %.2f ms, %llu evicted; they "
        "served %llu of %llu runs\n",
        (unsigned long long)c.made, (double)c.time / 1e6,
        (unsigned long long)c.evicted, (unsigned long long)c.hits,
        (unsigned long long)(c.hits + c.misses));
}

/* The memory that the plan holds between runs. */
static void print_footprint(keel_plan *plan) {
  keel_footprint f;
  for (uint32_t i = 0; keel_plan_footprint(plan, i, &f) == KD_OK; i++)
    if (f.constants + f.mapped + f.taken + f.recorded)
      printf(
          "held on %s: %.2f MiB of constants, %.2f in the model's "
          "file, %.2f as kernels have packed them, %.2f by recordings\n",
          f.device, (double)f.constants / (1u << 20),
          (double)f.mapped / (1u << 20), (double)f.taken / (1u << 20),
          (double)f.recorded / (1u << 20));
}

void run_print_text(const run_arguments *all, run_session *run,
                    const bool *agree, char (*texts)[256]) {
  keel_stats stats;
  for (uint32_t i = 0; i < run->output_count; i++) {
    char type[200];
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    printf("output %s: %s", shown(port.name),
           shown(keel_tensor_text(run->outputs[i], type, sizeof type)));
    if (i < all->expects.count)
      printf("  %s%s%s",
             agree[i] ? "as expected" : "DIFFERS: ", agree[i] ? "" : texts[i],
             "");
    printf("\n");
  }
  keel_get_stats(run->context, &stats);
  printf("load %.2f ms, plan %.2f ms, first run %.3f ms", run->load_time * 1e3,
         run->plan_time * 1e3, run->first_time * 1e3);
  if (all->repeat > 1)
    printf(", best %.3f ms, mean %.3f ms of %llu", run->best_time * 1e3,
           run->total_time / (double)all->repeat * 1e3,
           (unsigned long long)all->repeat);
  printf("; peak memory %.1f MiB\n", (double)stats.peak_bytes / (1u << 20));
  uint64_t planned, apart, least, held, most;
  if (resident(&held, &most))
    printf("resident memory: %.1f MiB (peak %.1f MiB)\n",
           (double)held / (1u << 20), (double)most / (1u << 20));
  if (keel_plan_memory(run->plan, &planned, &apart, &least) == KD_OK)
    printf(
        "intermediate values: %.2f MiB planned, %.2f MiB without sharing, %.2f "
        "MiB at peak\n",
        (double)planned / (1u << 20), (double)apart / (1u << 20),
        (double)least / (1u << 20));
  if (keel_plan_replays(run->plan))
    printf("%llu runs were launches of a recording\n",
           (unsigned long long)keel_plan_replays(run->plan));
  if (all->profile) print_versions(run->plan);
  if (all->profile) print_footprint(run->plan);
  if (all->split) parting_print(all->split, &run->facts);
  ranks_print(run->link, false);
  several_print(&run->several);
  if (all->profile) print_profile(run);
}

static void print_versions_json(keel_plan *plan) {
  keel_version_counts c;
  keel_plan_versions(plan, &c);
  printf(
      ", \"versions\": {\"kept\": %llu, \"pinned\": %llu, \"made\": %llu,"
      " \"evicted\": %llu, \"hits\": %llu, \"misses\": %llu, \"ns\": %llu}",
      (unsigned long long)c.kept, (unsigned long long)c.pinned,
      (unsigned long long)c.made, (unsigned long long)c.evicted,
      (unsigned long long)c.hits, (unsigned long long)c.misses,
      (unsigned long long)c.time);
}

static void print_footprint_json(keel_plan *plan) {
  keel_footprint f;
  const char *before = ", \"held\": [";
  for (uint32_t i = 0; keel_plan_footprint(plan, i, &f) == KD_OK; i++) {
    printf(
        "%s{\"device\": \"%s\", \"constants\": %llu, \"mapped\": %llu,"
        " \"taken\": %llu, \"recorded\": %llu, \"values\": %llu}",
        before, f.device, (unsigned long long)f.constants,
        (unsigned long long)f.mapped, (unsigned long long)f.taken,
        (unsigned long long)f.recorded, (unsigned long long)f.values);
    before = ", ";
  }
  printf("]");
}

static void print_profile_json(const run_session *run) {
  keel_profile_line line;
  keel_profile_device d;
  keel_profile_exchanges times;
  printf(", \"profile\": [");
  for (uint32_t i = 0; keel_plan_profile_line(run->plan, i, &line) == KD_OK;
       i++) {
    printf("%s{\"op\": ", i ? ", " : "");
    keel_write_json(stdout, line.op);
    printf(
        ", \"device\": \"%s\", \"calls\": %llu, \"ns\": %llu,"
        " \"host_ns\": %llu, \"timed\": %u, \"copy_ns\": %llu, \"node\": ",
        line.device, (unsigned long long)line.calls,
        (unsigned long long)time_of(&line), (unsigned long long)line.time,
        line.timed, (unsigned long long)line.copies);
    keel_write_json(stdout, line.node);
    printf(", \"types\": ");
    keel_write_json(stdout, line.types);
    printf("}");
  }
  printf("], \"devices\": [");
  for (uint32_t i = 0; keel_plan_profile_device(run->plan, i, &d) == KD_OK; i++)
    printf(
        "%s{\"device\": \"%s\", \"calls\": %llu, \"wall_ns\": %llu,"
        " \"kernel_ns\": %llu, \"copy_ns\": %llu, \"idle_ns\": %llu,"
        " \"copied_bytes\": %llu, \"timed\": %u}",
        i ? ", " : "", d.name, (unsigned long long)d.calls,
        (unsigned long long)d.wall, (unsigned long long)d.kernels,
        (unsigned long long)d.copies, (unsigned long long)d.idle,
        (unsigned long long)d.bytes, d.timed);
  keel_plan_profile_exchanges(run->plan, &times);
  printf("]");
  print_versions_json(run->plan);
  print_footprint_json(run->plan);
  printf(
      ", \"exchanges\": {\"calls\": %llu, \"time_ns\": %llu,"
      " \"bare_ns\": %llu}",
      (unsigned long long)times.calls, (unsigned long long)times.time,
      (unsigned long long)bare_time(run, &times));
}

void run_print_json(const run_arguments *all, run_session *run,
                    const bool *agree, char (*texts)[256]) {
  printf("{\"model\": ");
  keel_write_json(stdout, all->model);
  printf(
      ", \"load_ms\": %.3f, \"plan_ms\": %.3f, \"first_ms\": %.3f,"
      " \"best_ms\": %.3f, \"repeat\": %llu, \"threads\": %u, \"outputs\": [",
      run->load_time * 1e3, run->plan_time * 1e3, run->first_time * 1e3,
      (all->repeat > 1 ? run->best_time : run->first_time) * 1e3,
      (unsigned long long)all->repeat, keel_worker_count(run->context));
  for (uint32_t i = 0; i < run->output_count; i++) {
    char type[200];
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    printf("%s{\"name\": ", i ? ", " : "");
    keel_write_json(stdout, port.name);
    printf(", \"type\": ");
    keel_write_json(stdout,
                    keel_tensor_text(run->outputs[i], type, sizeof type));
    if (i < all->expects.count) {
      printf(", \"agrees\": %s, \"difference\": ", agree[i] ? "true" : "false");
      keel_write_json(stdout, texts[i]);
    }
    printf("}");
  }
  printf("]");
  uint64_t planned, apart, least, held, most;
  if (resident(&held, &most))
    printf(", \"resident_bytes\": %llu, \"resident_most_bytes\": %llu",
           (unsigned long long)held, (unsigned long long)most);
  if (keel_plan_memory(run->plan, &planned, &apart, &least) == KD_OK)
    printf(
        ", \"planned_bytes\": %llu, \"apart_bytes\": %llu,"
        " \"least_bytes\": %llu",
        (unsigned long long)planned, (unsigned long long)apart,
        (unsigned long long)least);
  ranks_print(run->link, true);
  printf(", \"replays\": %llu",
         (unsigned long long)keel_plan_replays(run->plan));
  if (all->profile) print_profile_json(run);
  printf("}\n");
}
