/* smpi.c - traces for SimGrid: a file for each rank, whose lines are actions. Each begins with the
 * rank: "3 compute 1e9", "3 allreduce COUNT FLOPS TYPE". */
#include "smpi.h"

#include <errno.h>
#include <keel/phases.h>
#include <limits.h>
#include <sys/stat.h>

#include "system/save.h"

typedef struct phase_list {
  keel_phase *items;
  uint32_t count, capacity;
  bool failed; /* no memory */
} phase_list;

/* A copy, with what it borrows; false: no memory. */
static bool smpi_keep(keel_phase *phase) {
  int64_t *pairs = NULL;
  uint32_t count = 2 * phase->pair_count;
  char *name = strdup(phase->name ? phase->name : "");
  if (count) pairs = malloc(count * sizeof *pairs);
  if (pairs) memcpy(pairs, phase->pairs, count * sizeof *pairs);
  phase->name = name;
  phase->pairs = pairs;
  return name && (pairs || !count);
}

static void smpi_take(void *context, const keel_phase *phase) {
  phase_list *all = context;
  if (all->count == all->capacity) {
    uint32_t capacity = all->capacity ? 2 * all->capacity : 64;
    keel_phase *items = realloc(all->items, capacity * sizeof *items);
    all->failed |= !items;
    if (!items) return;
    all->items = items;
    all->capacity = capacity;
  }
  all->items[all->count] = *phase;
  all->failed |= !smpi_keep(&all->items[all->count++]);
}

static void smpi_release(phase_list *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    free((void *)(uintptr_t)all->items[i].name);
    free((void *)(uintptr_t)all->items[i].pairs);
  }
  free(all->items);
}

/* The file of a rank that is being written. */
typedef struct trace {
  const smpi_traces *of;
  FILE *file;
  uint32_t rank;
  uint32_t *sends, *receives; /* so far, by the other rank: their tags */
  bool waits;                 /* something is sent that may not have gone yet */
} trace;

/* ---- one action --------------------------------------------------------------------------- */

/* SMPI's number of a type that has its size; 6 is its byte. */
static int type_number(kd_dtype dtype) {
  switch (dtype) {
    case KD_F64:
      return 0;
    case KD_I32:
      return 1;
    case KD_I16:
      return 3;
    case KD_I64:
      return 4;
    case KD_F32:
      return 5;
    default:
      return 6;
  }
}

static bool is(const keel_phase *phase, const char *op) {
  return !strcmp(phase->exchange, op);
}

/* Whether a rank gives a part of its elements to each of the others. */
static bool gives_parts(const keel_phase *phase) {
  return is(phase, "ReduceScatter") || is(phase, "AllToAll");
}

/* In SMPI's type. */
static uint64_t count_of(const keel_phase *phase) {
  uint64_t each =
      type_number(phase->dtype) == 6 ? keel_dtype_size(phase->dtype) : 1;
  return phase->count * each;
}

/* Of the additions of a reduction, which ranks share. */
static double reduction_flops(const smpi_traces *to, const keel_phase *phase) {
  double moved = 3.0 * (double)keel_dtype_size(phase->dtype) * to->bytes_as;
  double each = moved > 1 ? moved : 1;
  return each * (double)phase->count * (to->ranks - 1) / to->ranks;
}

/* Tags are those of Sends and Receives, which may be under way between the same ranks. */
static void write_pairs(trace *to_file, const keel_phase *phase) {
  FILE *file = to_file->file;
  uint32_t rank = to_file->rank;
  int type = type_number(phase->dtype);
  unsigned long long count = count_of(phase);
  for (uint32_t i = 0; i < phase->pair_count; i++) {
    long long from = phase->pairs[2 * i], to = phase->pairs[2 * i + 1];
    if (from == to) continue;
    if (from == rank)
      fprintf(file, "%u isend %lld %u %llu %d\n", rank, to,
              (unsigned)to_file->sends[to]++, count, type);
    if (to == rank)
      fprintf(file, "%u irecv %lld %u %llu %d\n", rank, from,
              (unsigned)to_file->receives[from]++, count, type);
  }
  fprintf(file, "%u waitall\n", rank);
}

/* Messages of two ranks keep their order; a Send does not wait. */
static void write_message(trace *to, const keel_phase *phase) {
  bool sends = is(phase, "Send");
  uint32_t *tag = &(sends ? to->sends : to->receives)[phase->peer];
  fprintf(to->file, "%u %s %u %u %llu %d\n", (unsigned)to->rank,
          sends ? "isend" : "recv", (unsigned)phase->peer, (unsigned)*tag,
          (unsigned long long)count_of(phase), type_number(phase->dtype));
  ++*tag;
  to->waits |= sends;
}

static void write_exchange(trace *to, const keel_phase *phase) {
  FILE *file = to->file;
  unsigned rank = to->rank;
  int type = type_number(phase->dtype);
  unsigned long long count = count_of(phase), part = count / to->of->ranks;
  double flops = reduction_flops(to->of, phase);
  if (is(phase, "AllReduce")) {
    fprintf(file, "%u allreduce %llu %.0f %d\n", rank, count, flops, type);
  } else if (is(phase, "AllGather")) {
    fprintf(file, "%u allgather %llu %llu %d %d\n", rank, count, count, type,
            type);
  } else if (is(phase, "AllToAll")) {
    fprintf(file, "%u alltoall %llu %llu %d %d\n", rank, part, part, type,
            type);
  } else if (is(phase, "Broadcast")) {
    fprintf(file, "%u bcast %llu %u %d\n", rank, count, (unsigned)phase->peer,
            type);
  } else if (is(phase, "ReduceScatter")) {
    fprintf(file, "%u reducescatter", rank);
    for (uint32_t i = 0; i < to->of->ranks; i++)
      fprintf(file, " %llu", part);
    fprintf(file, " %.0f %d\n", flops, type);
  } else if (is(phase, "Permute")) {
    write_pairs(to, phase);
  } else {
    write_message(to, phase);
  }
}

/* ---- what can't be replayed ----------------------------------------------------------------- */

/* Whether there are all ranks of a Permute. */
static bool has_ranks(const smpi_traces *to, const keel_phase *phase) {
  for (uint32_t i = 0; i < 2 * phase->pair_count; i++)
    if (phase->pairs[i] < 0 || phase->pairs[i] >= (int64_t)to->ranks)
      return false;
  return true;
}

static bool smpi_check(const smpi_traces *to, const keel_phase *phase) {
  static const char *const known[] = {"AllReduce", "AllGather", "AllToAll",
                                      "Broadcast", "Permute",   "ReduceScatter",
                                      "Send",      "Receive"};
  bool found = false;
  for (size_t i = 0; phase->exchange && i < sizeof known / sizeof *known; i++)
    found |= is(phase, known[i]);
  if (!phase->exchange) return true;
  if (!found)
    fprintf(stderr, "keel compile: %s \"%s\" can't be put into a trace\n",
            phase->exchange, shown(phase->name));
  else if (phase->size && phase->size != to->ranks)
    fprintf(stderr, "keel compile: %s \"%s\" is for %u ranks, and --np is %u\n",
            phase->exchange, shown(phase->name), (unsigned)phase->size,
            (unsigned)to->ranks);
  else if (phase->peer >= to->ranks)
    fprintf(stderr, "keel compile: %s \"%s\" is with rank %u, and --np is %u\n",
            phase->exchange, shown(phase->name), (unsigned)phase->peer,
            (unsigned)to->ranks);
  else if (!has_ranks(to, phase))
    fprintf(stderr,
            "keel compile: %s \"%s\" needs ranks that --np %u does not have\n",
            phase->exchange, shown(phase->name), (unsigned)to->ranks);
  else if (count_of(phase) > INT_MAX)
    fprintf(stderr,
            "keel compile: %s \"%s\" is of %llu elements, and SMPI counts up"
            " to %d\n",
            phase->exchange, shown(phase->name),
            (unsigned long long)phase->count, INT_MAX);
  else
    return true;
  return false;
}

/* ---- files ------------------------------------------------------------------------------------ */

static int no_memory(void) {
  fprintf(stderr, "keel compile: no memory\n");
  return 1;
}

static int complain_of(const char *path) {
  fprintf(stderr, "keel compile: %s can't be written: %s\n", path,
          strerror(errno));
  return 1;
}

/* The folder, and its list of traces, which names them in full: smpirun is run anywhere. */
static int smpi_begin(const smpi_traces *traces) {
  char path[PATH_MAX + 16], folder[PATH_MAX];
  if (mkdir(traces->folder, 0777) != 0 && errno != EEXIST)
    return complain_of(traces->folder);
  if (!realpath(traces->folder, folder)) return complain_of(traces->folder);
  snprintf(path, sizeof path, "%s/ranks", folder);
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return complain_of(path);
  for (uint32_t i = 0; i < traces->ranks; i++)
    fprintf(save.file, "%s/rank-%u\n", folder, (unsigned)i);
  return keel_save_end(&save, true) ? 0 : complain_of(path);
}

static void write_actions(trace *to, const phase_list *all) {
  fprintf(to->file, "%u init\n", (unsigned)to->rank);
  for (uint32_t i = 0; i < all->count; i++) {
    const keel_phase *phase = &all->items[i];
    if (phase->flops > 0)
      fprintf(to->file, "%u compute %.0f\n", (unsigned)to->rank, phase->flops);
    if (phase->exchange) write_exchange(to, phase);
  }
  if (to->waits) fprintf(to->file, "%u waitall\n", (unsigned)to->rank);
  fprintf(to->file, "%u finalize\n", (unsigned)to->rank);
}

static int write_rank(const smpi_traces *traces, const phase_list *all,
                      uint32_t rank) {
  char path[PATH_MAX + 16];
  uint32_t *tags = calloc(2 * (size_t)traces->ranks, sizeof *tags);
  if (!tags) return no_memory();
  snprintf(path, sizeof path, "%s/rank-%u", traces->folder, (unsigned)rank);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  trace to = {.of = traces,
              .file = save.file,
              .rank = rank,
              .sends = tags,
              .receives = tags + traces->ranks};
  if (good) write_actions(&to, all);
  good = good && keel_save_end(&save, true);
  free(tags);
  return good ? 0 : complain_of(path);
}

/* The part of each rank's value that must be sent: a rank does not send its own block to itself. */
static double sent(const smpi_traces *to, const keel_phase *phase) {
  double all = (double)phase->count * (double)keel_dtype_size(phase->dtype);
  double others = (double)(to->ranks - 1) / to->ranks;
  return is(phase, "AllReduce")   ? 2 * others * all
         : is(phase, "AllGather") ? (to->ranks - 1) * all
         : gives_parts(phase)     ? others * all
         : is(phase, "Receive")   ? 0
                                  : all;
}

static void print(const smpi_traces *to, const phase_list *all, uint32_t from,
                  uint32_t count) {
  double flops = 0, bytes = 0;
  unsigned exchanges = 0, unknown = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    flops += all->items[i].flops;
    unknown += all->items[i].unknown;
    if (!all->items[i].exchange) continue;
    exchanges++;
    bytes += sent(to, &all->items[i]);
  }
  bool small = bytes < 1u << 20;
  if (count == to->ranks)
    printf("%s/ranks: %u ranks, each of", to->folder, (unsigned)count);
  else
    printf("%s/rank-%u:", to->folder, (unsigned)from);
  printf(" %.3f Gflop and %u exchanges, which send %.3f %s or more\n",
         flops * 1e-9, exchanges, bytes / (small ? 1u << 10 : 1u << 20),
         small ? "KiB" : "MiB");
  if (unknown)
    printf("%u ops count as nothing: their sizes are known in a run only\n",
           unknown);
}

int smpi_write(const smpi_traces *traces, const keel_program *program,
               uint32_t from, uint32_t to) {
  phase_list all = {0};
  int result = 0;
  keel_status status =
      keel_program_phases(program, traces->bytes_as, smpi_take, &all);
  if (status != KD_OK) result = complain();
  if (all.failed) result = no_memory();
  for (uint32_t i = 0; i < all.count && !result; i++)
    result = !smpi_check(traces, &all.items[i]);
  if (!from && !result) result = smpi_begin(traces);
  for (uint32_t rank = from; rank < to && !result; rank++) {
    progress("writing the trace of rank %u of %u", (unsigned)rank,
             (unsigned)traces->ranks);
    result = write_rank(traces, &all, rank);
  }
  progress_end();
  if (!result) print(traces, &all, from, to - from);
  smpi_release(&all);
  return result;
}
