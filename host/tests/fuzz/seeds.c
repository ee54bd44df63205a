/* seeds.c - reading ONNX's cases, and artifacts of StableHLO. */
#include "seeds.h"

#include <dirent.h>
#include <keel/file.h>

#include "mutate.h"
#include "onnx.pb-c.h"

#define LARGEST 65536 /* bytes of a model */

static uint8_t *read_file(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = file ? malloc(LARGEST + 1) : NULL;
  if (data) *out_size = fread(data, 1, LARGEST + 1, file);
  if (file) fclose(file);
  if (data && *out_size <= LARGEST) return data;
  free(data);
  return NULL;
}

/* Those of the case's first set of data; another kind of value than a tensor stays NULL,
 * and the runs make one. */
static void read_inputs(keel_context *context, const char *folder,
                        hostile_inputs *out) {
  char path[700];
  for (; out->count < HOSTILE_MOST; out->count++) {
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%u.pb", folder,
             (unsigned)out->count);
    FILE *there = fopen(path, "rb");
    if (!there) break;
    fclose(there);
    if (keel_value_load(context, path, KEEL_FILE_TENSOR,
                        &out->tensors[out->count]) != KD_OK)
      out->tensors[out->count] = NULL;
  }
}

static void read_op(fuzz_seed *seed) {
  Onnx__ModelProto *model =
      onnx__model_proto__unpack(NULL, seed->size, seed->data);
  bool any = model && model->graph && model->graph->n_node;
  seed->op = strdup(any ? model->graph->node[0]->op_type : "");
  seed->is_one_node = any && model->graph->n_node == 1;
  if (model) onnx__model_proto__free_unpacked(model, NULL);
}

static void add(fuzz_seeds *seeds, fuzz_seed seed) {
  seeds->list = realloc(seeds->list, (seeds->count + 1) * sizeof seed);
  assert_non_null(seeds->list);
  seeds->list[seeds->count++] = seed;
}

static void add_case(keel_context *context, fuzz_seeds *seeds,
                     const char *folder, const char *name) {
  char path[640];
  fuzz_seed seed = {0};
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  seed.data = read_file(path, &seed.size);
  if (!seed.data) return;
  seed.name = strdup(name);
  read_op(&seed);
  read_inputs(context, folder, &seed.inputs);
  add(seeds, seed);
}

static bool has_case(const fuzz_seeds *seeds, size_t cases, const char *op) {
  for (size_t i = 0; i < cases; i++)
    if (seeds->list[i].is_one_node && !strcmp(seeds->list[i].op, op))
      return true;
  return false;
}

/* A node each of the ops that no case has alone. */
static void add_others(fuzz_seeds *seeds) {
  size_t cases = seeds->count;
  const keel_schema *schema;
  for (uint32_t k = 0; (schema = keel_schema_at(k)) != NULL; k++) {
    if (has_case(seeds, cases, schema->name)) continue;
    for (uint32_t rank = 0; rank < 2; rank++) {
      fuzz_seed seed = {.data = NULL};
      seed.data = fuzz_invent(schema, rank, &seed.size);
      if (!seed.data) break;
      seed.name = strdup(schema->name);
      seed.op = strdup(schema->name);
      add(seeds, seed);
    }
  }
}

static int by_op(const void *a, const void *b) {
  const fuzz_seed *x = a, *y = b;
  int order = strcmp(x->op, y->op);
  return order ? order : strcmp(x->name, y->name);
}

static void sort_seeds(fuzz_seeds *seeds) {
  if (!seeds->count) return;
  qsort(seeds->list, seeds->count, sizeof *seeds->list, by_op);
  for (size_t i = 0; i < seeds->count; i++)
    seeds->op_count +=
        !i || strcmp(seeds->list[i].op, seeds->list[i - 1].op) != 0;
}

fuzz_seed *fuzz_seeds_pick(const fuzz_seeds *seeds, fuzz_random *random) {
  if (fuzz_once_in(random, 2))
    return &seeds->list[fuzz_below(random, seeds->count)];
  uint64_t wanted = fuzz_below(random, seeds->op_count), op = 0;
  size_t first = 0, count = 0;
  for (size_t i = 0; i < seeds->count; i++) {
    op += i && strcmp(seeds->list[i].op, seeds->list[i - 1].op) != 0;
    if (op < wanted) first = i + 1;
    count += op == wanted;
  }
  return &seeds->list[first + fuzz_below(random, count)];
}

fuzz_seeds fuzz_seeds_read(keel_context *context, const char *data) {
  static const char *const sets[] = {"node", "simple", "pytorch-converted",
                                     "pytorch-operator"};
  fuzz_seeds seeds = {0};
  for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
    char folder[256], path[600];
    struct dirent **entries = NULL;
    snprintf(folder, sizeof folder, "%s/%s", data, sets[s]);
    int found = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
      snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
      if (entries[i]->d_name[0] != '.')
        add_case(context, &seeds, path, entries[i]->d_name);
      free(entries[i]);
    }
    free(entries);
  }
  if (seeds.count) add_others(&seeds);
  sort_seeds(&seeds);
  return seeds;
}

static int is_artifact(const struct dirent *entry) {
  const char *end = strrchr(entry->d_name, '.');
  return end && !strcmp(end, ".mlirbc");
}

fuzz_seeds fuzz_seeds_artifacts(keel_context *context, const char *folder) {
  fuzz_seeds seeds = {0};
  struct dirent **entries = NULL;
  int found = scandir(folder, &entries, is_artifact, alphasort);
  for (int i = 0; i < found; i++) {
    char path[600];
    fuzz_seed seed = {0};
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    seed.data = read_file(path, &seed.size);
    snprintf(strrchr(path, '.'), 8, ".in");
    if (seed.data) {
      seed.name = strdup(entries[i]->d_name);
      seed.op = strdup(entries[i]->d_name);
      hostile_inputs_read(context, path, &seed.inputs);
      add(&seeds, seed);
    }
    free(entries[i]);
  }
  free(entries);
  sort_seeds(&seeds);
  return seeds;
}

void fuzz_seeds_drop(fuzz_seeds *seeds) {
  for (size_t i = 0; i < seeds->count; i++) {
    hostile_inputs_drop(&seeds->list[i].inputs);
    free(seeds->list[i].name);
    free(seeds->list[i].op);
    free(seeds->list[i].data);
    free(seeds->list[i].form);
  }
  free(seeds->list);
  *seeds = (fuzz_seeds){0};
}
