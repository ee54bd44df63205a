/* fuzz.c - mutants of ONNX's cases and of StableHLO's artifacts, loaded, planned and run:
 * errors or results, never a crash, an overrun, a leak or a hang.
 *
 * usage: fuzz WHAT [OPTION]...
 *   graphs      models changed as graphs; text, binary: the same, through Keel's own forms,
 *               whose bytes are changed
 *   ahead       programs that are compiled ahead for a device with a compiler, whose bytes
 *               are changed: the compiled forms in them, too
 *   artifacts   StableHLO's, whose bytes are changed
 *   launches    the nodes of the cases with other attributes, shapes and data
 *   --count N   mutants (1000)             --seed N    of all of them (1)
 *   --only N    mutant N alone             --keep F    where the mutant at hand is written
 *   --plugin P  on another plugin's device --data DIR  ONNX's test data, or
 *                                           the folder of the artifacts
 *
 * A mutant is decided by the seed and its number, so that --seed and --only show it again;
 * what crashed lies in the file of --keep. A mutant that takes over a minute ends the process
 * by SIGALRM: a hang. Ends with one line of counts. */
#include <keel/debug.h>
#include <keel/split.h>

#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

#include "mutate.h"
#include "program/image.h"
#include "seeds.h"

#define DATA      "/usr/share/libonnx-testdata/data"
#define MEMORY    (UINT64_C(16) << 20) /* that a mutant may ask for */
#define LIMIT     UINT64_C(500000000) /* nanoseconds, of planning, and of a run */
#define SECONDS   60                  /* until it is a hang */
#define RUNS      3
#define FORM_MOST 65536 /* bytes of a seed in another form */
#define LARGEST   65536 /* elements of an input: no run takes long */

typedef enum what {
  GRAPHS,
  TEXT,
  BINARY,
  LAUNCHES,
  AHEAD,
  ARTIFACTS,
  KINDS
} what;

typedef struct fuzzing {
  what what;
  uint64_t count, seed, only;
  const char *plugin, *data;
  char keep[200];
  keel_context *context;
  fuzz_seeds seeds;
  uint64_t loaded, ran, refused; /* mutants */
} fuzzing;

static bool write_whole(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  bool whole = file && fwrite(data, 1, size, file) == size;
  if (file && fclose(file) != 0) whole = false;
  return whole;
}

/* ---- inputs -------------------------------------------------------------------- */

static void poison(fuzz_random *random, kd_dtype dtype, uint8_t *data,
                   uint64_t size) {
  uint32_t each = kd_dtype_size(dtype);
  uint64_t count = each ? size / each : 0;
  for (uint64_t n = count ? 1 + fuzz_below(random, 3) : 0; n > 0; n--) {
    uint8_t *at = data + fuzz_below(random, count) * each;
    double real = fuzz_real(random);
    float single = (float)real;
    int64_t whole = fuzz_int(random);
    if (fuzz_once_in(random, 3)) /* twice the same: axes, indices */
      memmove(at, data + fuzz_below(random, count) * each, each);
    else if (dtype == KD_F32)
      memcpy(at, &single, sizeof single);
    else if (dtype == KD_F64)
      memcpy(at, &real, sizeof real);
    else if (dtype == KD_BOOL)
      *at = (uint8_t)(whole & 1);
    else
      memcpy(at, &whole, each < sizeof whole ? each : sizeof whole);
  }
}

/* Another tensor in the place of one: other data, and now and then another shape. NULL: its
 * elements have no whole bytes. */
static keel_tensor *change_input(fuzzing *all, fuzz_random *random,
                                 keel_tensor *from) {
  int64_t dims[KD_MAX_RANK];
  uint32_t rank = keel_tensor_rank(from);
  kd_dtype dtype = keel_tensor_dtype(from);
  keel_tensor *made = NULL;
  if (!kd_dtype_size(dtype)) return NULL;
  memcpy(dims, keel_tensor_dims(from), rank * sizeof *dims);
  bool other = rank && fuzz_once_in(random, 2);
  if (other)
    dims[fuzz_below(random, rank)] =
        fuzz_once_in(random, 2) ? 0 : (int64_t)fuzz_below(random, 6);
  if (other && fuzz_once_in(random, 4)) rank--;
  uint64_t size = kd_dtype_size(dtype);
  for (uint32_t i = 0; i < rank; i++)
    size *= (uint64_t)dims[i];
  uint8_t *data = calloc(size + 8, 1);
  assert_non_null(data);
  if (other || keel_tensor_read(from, data, size) != KD_OK)
    for (uint64_t i = 0; i < size; i++)
      data[i] = (uint8_t)(i % 5 == 3); /* small numbers of any type */
  poison(random, dtype, data, size);
  keel_tensor_create(all->context, dtype, rank, dims, data, &made);
  free(data);
  return made;
}

static bool is_large(keel_tensor *tensor) {
  const int64_t *dims = keel_tensor_dims(tensor);
  int64_t elements = 1;
  for (uint32_t i = 0; i < keel_tensor_rank(tensor) && elements <= LARGEST; i++)
    elements *= dims[i] < LARGEST + 1 ? dims[i] : LARGEST + 1;
  return elements > LARGEST;
}

/* What the program is run on: the case's inputs where they fit, or some; some of them
 * changed. */
static bool make_inputs(fuzzing *all, fuzz_random *random,
                        const keel_program *program, const fuzz_seed *seed,
                        hostile_inputs *out) {
  uint32_t count = keel_program_input_count(program);
  bool own = seed && seed->inputs.count == count && !fuzz_once_in(random, 6);
  if (!own && !hostile_inputs_make(all->context, program, out)) return false;
  for (uint32_t i = 0; i < count && own; i++) {
    out->tensors[i] = seed->inputs.tensors[i]
                          ? keel_tensor_retain(seed->inputs.tensors[i])
                          : NULL;
    own = out->tensors[i] != NULL;
  }
  out->count = count;
  for (uint32_t i = 0; i < count; i++) {
    if (!out->tensors[i] ||
        !fuzz_once_in(random, all->what == LAUNCHES ? 2 : 4))
      continue;
    keel_tensor *made = change_input(all, random, out->tensors[i]);
    if (!made) continue;
    keel_tensor_release(out->tensors[i]);
    out->tensors[i] = made;
  }
  bool whole = true;
  for (uint32_t i = 0; i < count; i++)
    whole = whole && out->tensors[i] && !is_large(out->tensors[i]);
  if (!whole) hostile_inputs_drop(out);
  return whole;
}

/* ---- bytes of Keel's own forms ---------------------------------------------------- */

static size_t change_bytes(fuzz_random *random, uint8_t *data, size_t size) {
  for (uint64_t n = 1 + fuzz_below(random, 4); n > 0 && size > 4; n--) {
    size_t at = fuzz_below(random, size);
    int64_t value = fuzz_int(random);
    switch (fuzz_below(random, 4)) {
      case 0:
        data[at] ^= (uint8_t)(1u << fuzz_below(random, 8));
        break;
      case 1:
        memcpy(data + at / 4 * 4, &value, 4);
        break;
      case 2:
        if (fuzz_once_in(random, 4)) size = at;
        break;
      default:
        memmove(data + at, data + fuzz_below(random, size - 4),
                size - at < 4 ? size - at : 4);
    }
  }
  return size;
}

/* The same for compiled forms: damage that the plugin must find. */
static void seal_forms(uint8_t *data, size_t size, const image_head *head) {
  const image_part *part = &head->parts[IMAGE_FORMS];
  if (part->size != sizeof(image_form) || part->offset > size ||
      part->count > (size - part->offset) / sizeof(image_form))
    return;
  for (uint32_t i = 0; i < part->count; i++) {
    uint8_t *at = data + part->offset + i * sizeof(image_form);
    image_form form;
    memcpy(&form, at, sizeof form);
    if (head->data > size || form.at > size - head->data ||
        form.size > size - head->data - form.at)
      continue;
    form.sum = keel_hash(KEEL_HASH_SEED, data + head->data + form.at,
                         (size_t)form.size);
    memcpy(at, &form, sizeof form);
  }
}

/* A right sum over wrong bytes: damage that the reader must find for itself. */
static void seal(uint8_t *data, size_t size, bool forms) {
  image_head head;
  if (size < sizeof head) return;
  memcpy(&head, data, sizeof head);
  head.file_size = size;
  if (forms) seal_forms(data, size, &head);
  if (head.head_size <= head.data && head.data <= size)
    head.check = keel_hash(KEEL_HASH_SEED, data + head.head_size,
                           head.data - head.head_size);
  memcpy(data, &head, sizeof head);
}

/* For the device with a compiler; NULL: that makes nothing of it. */
static keel_program *compile_ahead(fuzzing *all, keel_program *program) {
  keel_plan_params params = {.struct_size = sizeof params};
  keel_program *made = NULL;
  uint32_t held = 0;
  if (keel_device_find(all->context, "graph_npu", &params.device) == KD_OK &&
      keel_program_compile(program, &params, &made) == KD_OK)
    keel_program_regions(made, &held, NULL, NULL);
  keel_program_release(program);
  if (held) return made;
  keel_program_release(made);
  return NULL;
}

/* The seed in another form, made at first use; false: it can't be. */
static bool make_form(fuzzing *all, fuzz_seed *seed) {
  keel_program *program = NULL;
  if (seed->form) return seed->form_size > 0;
  seed->form = calloc(FORM_MOST, 1);
  assert_non_null(seed->form);
  bool good = write_whole(all->keep, seed->data, seed->size) &&
              keel_program_load(all->context, all->keep, &program) == KD_OK;
  if (good && all->what == AHEAD) program = compile_ahead(all, program);
  good = good && program &&
         keel_program_save(program, all->keep,
                           all->what == TEXT ? KEEL_SAVE_TEXT : 0) == KD_OK;
  keel_program_release(program);
  FILE *file = good ? fopen(all->keep, "rb") : NULL;
  if (file) seed->form_size = fread(seed->form, 1, FORM_MOST, file);
  if (file) fclose(file);
  if (seed->form_size == FORM_MOST) seed->form_size = 0; /* there is more */
  return seed->form_size > 0;
}

static bool write_artifact(fuzzing *all, fuzz_random *random,
                           const fuzz_seed *seed) {
  uint8_t *data = malloc(seed->size + 16);
  assert_non_null(data);
  memcpy(data, seed->data, seed->size);
  size_t size = change_bytes(random, data, seed->size);
  bool good = write_whole(all->keep, data, size);
  free(data);
  return good;
}

static bool write_form(fuzzing *all, fuzz_random *random, fuzz_seed *seed) {
  if (!make_form(all, seed)) return false;
  size_t size = seed->form_size;
  uint8_t *data = malloc(size + 16);
  assert_non_null(data);
  memcpy(data, seed->form, size);
  size = change_bytes(random, data, size);
  bool binary = all->what == BINARY || all->what == AHEAD;
  if (binary && !fuzz_once_in(random, 8))
    seal(data, size, fuzz_once_in(random, 2));
  bool good = write_whole(all->keep, data, size);
  free(data);
  return good;
}

/* ---- one mutant -------------------------------------------------------------------- */

static bool write_mutant(fuzzing *all, fuzz_random *random, fuzz_seed *seed) {
  size_t size = 0;
  if (all->what == TEXT || all->what == BINARY || all->what == AHEAD)
    return write_form(all, random, seed);
  if (all->what == ARTIFACTS) return write_artifact(all, random, seed);
  unsigned flags = all->what == LAUNCHES ? FUZZ_ATTRIBUTES : 0;
  /* half of the launches differ in their inputs alone */
  bool same = flags && fuzz_once_in(random, 2);
  uint8_t *made =
      same ? NULL : fuzz_mutate(random, seed->data, seed->size, flags, &size);
  bool good = made ? write_whole(all->keep, made, size)
                   : write_whole(all->keep, seed->data, seed->size);
  free(made);
  return good;
}

/* A program for one of a few ranks can be planned, or the split says why there is none. */
static void split_mutant(fuzz_random *random, const keel_program *program) {
  const uint32_t size = 1 + (uint32_t)(fuzz_next(random) % 4);
  const keel_split_params params = {
      .struct_size = sizeof params,
      .kind = fuzz_once_in(random, 2) ? KEEL_SPLIT_DATA : KEEL_SPLIT_TENSOR,
      .rank = (uint32_t)(fuzz_next(random) % size),
      .size = size};
  const keel_plan_params how = {.struct_size = sizeof how};
  keel_program *own = NULL;
  keel_plan *plan = NULL;
  if (keel_program_split(program, &params, &own, NULL) != KD_OK) return;
  if (keel_plan_create(own, &how, &plan) == KD_OK) keel_plan_release(plan);
  keel_program_release(own);
}

static void run_mutant(fuzzing *all, uint64_t number) {
  fuzz_random random = {all->seed * UINT64_C(0x9e3779b97f4a7c15) + number};
  fuzz_next(&random);
  fuzz_seed *seed = fuzz_seeds_pick(&all->seeds, &random);
  keel_program *program = NULL;
  hostile_inputs inputs = {0};
  alarm(SECONDS);
  if (!write_mutant(all, &random, seed)) return;
  if (getenv("KEEL_FUZZ_TRACE"))
    fprintf(stderr, "%llu %s\n", (unsigned long long)number, seed->name);
  if (keel_program_load(all->context, all->keep, &program) != KD_OK) {
    if (!*keel_message())
      fail_msg("mutant %llu: an error without a word",
               (unsigned long long)number);
    all->refused++;
    return;
  }
  all->loaded++;
  if (fuzz_once_in(&random, 4)) split_mutant(&random, program);
  bool eager = fuzz_once_in(&random, 2);
  if (make_inputs(all, &random, program, seed, &inputs))
    all->ran += hostile_run(program, &inputs, eager ? KEEL_PLAN_EAGER : 0, RUNS,
                            LIMIT) == KD_OK;
  hostile_inputs_drop(&inputs);
  keel_program_release(program);
}

/* ---- the command ----------------------------------------------------------------------- */

static int usage(const char *what) {
  fprintf(stderr,
          "fuzz: %s; usage: fuzz graphs|text|binary|launches|ahead|artifacts"
          " [--count N] [--seed N] [--only N] [--keep FILE]"
          " [--plugin FILE] [--data DIR]\n",
          what);
  return 2;
}

static bool read_number(const char *from, uint64_t *out) {
  char *end = NULL;
  *out = strtoull(from, &end, 10);
  return *from && !*end;
}

static int read_options(int argc, char **argv, fuzzing *all) {
  static const struct option options[] = {
      {"count", 1, NULL, 'c'}, {"seed", 1, NULL, 's'},   {"only", 1, NULL, 'o'},
      {"keep", 1, NULL, 'k'},  {"plugin", 1, NULL, 'p'}, {"data", 1, NULL, 'd'},
      {NULL, 0, NULL, 0}};
  static const char *const names[KINDS] = {"graphs",   "text",  "binary",
                                           "launches", "ahead", "artifacts"};
  for (int at; (at = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    uint64_t *number = at == 'c'   ? &all->count
                       : at == 's' ? &all->seed
                       : at == 'o' ? &all->only
                                   : NULL;
    if (at == '?') return usage("an unknown option");
    if (number && !read_number(optarg, number)) return usage("no number");
    if (at == 'k') snprintf(all->keep, sizeof all->keep, "%s", optarg);
    if (at == 'p') all->plugin = optarg;
    if (at == 'd') all->data = optarg;
  }
  if (optind + 1 != argc) return usage("what is to be changed?");
  for (int i = 0; i < KINDS; i++)
    if (!strcmp(argv[optind], names[i])) {
      all->what = (what)i;
      return 0;
    }
  return usage("there is no such thing to be changed");
}

static int run_all(fuzzing *all) {
  const char *const plugins[] = {all->plugin, GRAPH_NPU_PLUGIN};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = plugins,
                                .plugin_count = all->what == AHEAD ? 2 : 1,
                                .memory_limit = MEMORY};
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1); /* mutants leave nothing */
  if (keel_open(&params, &all->context) != KD_OK) {
    fprintf(stderr, "fuzz: %s\n", keel_message());
    return 1;
  }
  if (!all->data) all->data = all->what == ARTIFACTS ? ARTIFACT_DATA : DATA;
  all->seeds = all->what == ARTIFACTS
                   ? fuzz_seeds_artifacts(all->context, all->data)
                   : fuzz_seeds_read(all->context, all->data);
  bool any = all->seeds.count > 0;
  if (!any) printf("fuzz: there is no test data in %s\n", all->data);
  for (uint64_t i = 0; i < all->count && any; i++)
    if (all->only == UINT64_MAX || all->only == i) run_mutant(all, i);
  fuzz_seeds_drop(&all->seeds);
  keel_close(all->context);
  if (any)
    printf("%llu mutants, seed %llu: %llu load, %llu run, %llu are refused\n",
           (unsigned long long)all->count, (unsigned long long)all->seed,
           (unsigned long long)all->loaded, (unsigned long long)all->ran,
           (unsigned long long)all->refused);
  return any ? 0 : 77;
}

int main(int argc, char **argv) {
  fuzzing all = {.count = 1000,
                 .seed = 1,
                 .only = UINT64_MAX,
                 .plugin = CPU_PLUGIN,
                 .data = NULL};
  int failed = read_options(argc, argv, &all);
  if (failed) return failed;
  bool own = !*all.keep;
  if (own) {
    snprintf(all.keep, sizeof all.keep, "/tmp/keel-fuzz-XXXXXX");
    int fd = mkstemp(all.keep);
    if (fd < 0) return 1;
    close(fd);
  }
  int result = run_all(&all);
  if (own) unlink(all.keep);
  return result;
}
