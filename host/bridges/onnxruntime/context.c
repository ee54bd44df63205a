/* context.c - compiled partitions in models: EPContext nodes.
 *
 * ONNX Runtime writes a model in which each partition is one node, and takes
 * the node from the provider. Ours holds the partition's program in Keel's
 * binary form, compiled for the session's device: as an attribute, or in a file
 * beside the model whose name has the program's checksum, so that no file that
 * an older model needs is ever overwritten. The other attributes say which
 * device it is for and what the bytes must be. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bridge.h"

#define NODE_OP      "EPContext"
#define NODE_DOMAIN  "com.microsoft"
#define EMBEDDED_MAX 0x7fffffff /* a model file holds no more */

/* ---- sums of bytes -------------------------------------------------------------- */

/* Finds damage; no secret. */
typedef struct sum {
  uint64_t value, size;
  uint8_t rest[8]; /* size % 8 bytes that are not in `value` yet */
} sum;

static void sum_word(sum *one, const void *word) {
  uint64_t bits;
  memcpy(&bits, word, sizeof bits);
  one->value = (one->value ^ bits) * 0x9e3779b97f4a7c15u;
  one->value ^= one->value >> 29;
}

static void sum_add(sum *one, const uint8_t *data, uint64_t size) {
  while (size && one->size % 8) {
    one->rest[one->size++ % 8] = *data++;
    size--;
    if (one->size % 8 == 0) sum_word(one, one->rest);
  }
  for (; size >= 8; size -= 8, data += 8, one->size += 8)
    sum_word(one, data);
  for (; size; size--)
    one->rest[one->size++ % 8] = *data++;
}

/* What the attribute `notes` says of a program's bytes. */
typedef struct notes {
  char text[128];
} notes;

#define NOTES_BEGIN "format " /* and its number */

/* The sum of all that was added. */
static uint64_t sum_end(const sum *one) {
  sum last = *one;
  memset(last.rest + last.size % 8, 0, sizeof last.rest - last.size % 8);
  sum_word(&last, last.rest);
  sum_word(&last, &last.size);
  return last.value;
}

static notes notes_of(const sum *check) {
  notes made;
  snprintf(made.text, sizeof made.text,
           NOTES_BEGIN "%d, %" PRIu64 " bytes, sum %016" PRIx64, CONTEXT_FORMAT,
           check->size, sum_end(check));
  return made;
}

/* ---- whose a node is ------------------------------------------------------------ */

/* NULL: the node has none of that name. The caller frees `out`. */
static ort_status *context_read_attr(const ort_node *node, const char *name,
                                     int type, void **out, size_t *out_size) {
  const ort_attr *attr = NULL;
  int found = 0;
  *out = NULL;
  *out_size = 0;
  ort_status *asked = ort->Node_GetAttributeByName(node, name, &attr);
  if (asked) ort->ReleaseStatus(asked);
  if (asked || !attr) return NULL;
  TRY(ort->OpAttr_GetType(attr, &found));
  return found == type ? attribute_data(attr, type, out, out_size) : NULL;
}

static ort_status *has_text(const ort_node *node, const char *name,
                            const char *want, bool *out) {
  void *text = NULL;
  size_t size = 0;
  ort_status *status =
      context_read_attr(node, name, ORT_OP_ATTR_STRING, &text, &size);
  *out = !status && text && size == strlen(want) && !memcmp(text, want, size);
  free(text);
  return status;
}

ort_status *context_is_ours(const ort_node *node, bool *out) {
  const char *op = NULL, *domain = NULL;
  *out = false;
  TRY(ort->Node_GetOperatorType(node, &op));
  TRY(ort->Node_GetDomain(node, &domain));
  if (strcmp(op, NODE_OP) != 0 || strcmp(domain, NODE_DOMAIN) != 0) return NULL;
  return has_text(node, "source", PROVIDER_NAME, out);
}

/* ---- paths ---------------------------------------------------------------------- */

/* How much of a path is its folder, with the last '/'. */
static size_t folder_size(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* A name that stays in the model's folder. */
static bool context_stays(const char *name) {
  if (!*name || *name == '/') return false;
  for (const char *at = name; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2])) return false;
  }
  return true;
}

/* The path of the file `name` beside the model, or NULL: no memory. */
static char *beside(const char *model, const char *name) {
  char *path = NULL;
  int size = asprintf(&path, "%.*s%s", (int)folder_size(model), model, name);
  return size < 0 ? NULL : path;
}

/* ---- writing -------------------------------------------------------------------- */

/* A node that is being made. */
typedef struct writing {
  char *bytes; /* the program, if it is embedded; else its file's name */
  uint64_t size, capacity;
  sum check;
  char *partition;
  ort_attr *attrs[8];
  size_t attr_count;
} writing;

static void writing_free(writing *one) {
  for (size_t i = 0; i < one->attr_count; i++)
    ort->ReleaseOpAttr(one->attrs[i]);
  free(one->bytes);
  free(one->partition);
}

static keel_status take_sum(void *context, const void *data, uint64_t size) {
  sum_add(context, data, size);
  return KD_OK;
}

static keel_status take_bytes(void *context, const void *data, uint64_t size) {
  writing *one = context;
  if (one->capacity - one->size < size) {
    uint64_t capacity = (one->size + size) * 2;
    char *larger = realloc(one->bytes, capacity);
    if (!larger) return KD_OUT_OF_MEMORY;
    one->bytes = larger;
    one->capacity = capacity;
  }
  memcpy(one->bytes + one->size, data, size);
  one->size += size;
  return KD_OK;
}

static ort_status *embed(writing *one, const keel_program *program) {
  if (one->check.size > EMBEDDED_MAX)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: a compiled partition has %" PRIu64
                   " bytes, and a model holds 2 GiB: set "
                   "ep.context_embed_mode to 0, which puts it into a file "
                   "beside the model",
                   one->check.size);
  TRY_KEEL(keel_program_write(program, 0, take_bytes, one));
  return NULL;
}

/* The model that ONNX Runtime will write: what it was told, or the source's
 * path with _ctx. The caller frees it. */
static ort_status *model_to_write(const options *given, const ort_graph *graph,
                                  char **out) {
  const char *path = NULL;
  *out = NULL;
  TRY(ort->Graph_GetModelPath(graph, &path));
  if (!given->context_path && !*path)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: the compiled partitions are to lie beside a model "
                   "that has no path: set ep.context_file_path, or "
                   "ep.context_embed_mode to 1");
  if (given->context_path) {
    *out = strdup(given->context_path);
    return *out ? NULL : no_memory();
  }
  size_t length = strlen(path);
  bool onnx = length > 5 && !strcmp(path + length - 5, ".onnx");
  int size =
      asprintf(out, "%.*s_ctx.onnx", (int)(length - (onnx ? 5 : 0)), path);
  if (size >= 0) return NULL;
  *out = NULL;
  return no_memory();
}

/* model_ctx.onnx: model_ctx_0123456789abcdef.keel */
static ort_status *name_file(writing *one, const char *model) {
  const char *name = model + folder_size(model);
  const char *dot = strrchr(name, '.');
  int stem = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
  int size = asprintf(&one->bytes, "%.*s_%016" PRIx64 ".keel", stem, name,
                      sum_end(&one->check));
  if (size < 0) {
    one->bytes = NULL;
    return no_memory();
  }
  one->size = (uint64_t)size;
  return NULL;
}

static ort_status *put_beside(writing *one, const keel_program *program,
                              const options *given, const ort_graph *graph) {
  char *model = NULL, *path = NULL;
  ort_status *status = model_to_write(given, graph, &model);
  if (!status) status = name_file(one, model);
  if (!status) {
    path = beside(model, one->bytes);
    keel_status saved =
        path ? keel_program_save(program, path, 0) : KD_OUT_OF_MEMORY;
    if (!path)
      status = no_memory();
    else if (saved != KD_OK)
      status = keel_failure(saved);
  }
  free(model);
  free(path);
  return status;
}

static ort_status *add_text(writing *one, const char *name, const char *text,
                            uint64_t size) {
  TRY(ort->CreateOpAttr(name, text, (int)size, ORT_OP_ATTR_STRING,
                        &one->attrs[one->attr_count]));
  one->attr_count++;
  return NULL;
}

static ort_status *add_number(writing *one, const char *name, int64_t value) {
  TRY(ort->CreateOpAttr(name, &value, 1, ORT_OP_ATTR_INT,
                        &one->attrs[one->attr_count]));
  one->attr_count++;
  return NULL;
}

static ort_status *add_attributes(writing *one, const options *given,
                                  const char *device, const char *name) {
  const char *version = keel_version();
  const char *prefix = given->context_prefix ? given->context_prefix : "";
  notes said = notes_of(&one->check);
  if (asprintf(&one->partition, "%s%s", prefix, name) < 0) {
    one->partition = NULL;
    return no_memory();
  }
  TRY(add_number(one, "main_context", 1));
  TRY(add_number(one, "embed_mode", given->context_embed));
  TRY(add_text(one, "ep_cache_context", one->bytes, one->size));
  TRY(add_text(one, "source", PROVIDER_NAME, strlen(PROVIDER_NAME)));
  TRY(add_text(one, "ep_sdk_version", version, strlen(version)));
  TRY(add_text(one, "hardware_architecture", device, strlen(device)));
  TRY(add_text(one, "notes", said.text, strlen(said.text)));
  return add_text(one, "partition_name", one->partition,
                  strlen(one->partition));
}

/* The names of a list's values, borrowed; the caller frees the list. */
static ort_status *names_of(const value_list *values, const char ***out) {
  *out = calloc(values->count + 1, sizeof **out);
  if (!*out) return no_memory();
  for (size_t i = 0; i < values->count; i++)
    TRY(value_name(values->items[i], &(*out)[i]));
  return NULL;
}

static ort_status *make_node(writing *one, const ort_editor_api *editor,
                             const ort_node *fused, const char *name,
                             ort_node **out) {
  value_list in = {0}, out_values = {0};
  const char **ins = NULL, **outs = NULL;
  ort_status *status = node_inputs(fused, &in);
  if (!status) status = node_outputs(fused, &out_values);
  if (!status) status = names_of(&in, &ins);
  if (!status) status = names_of(&out_values, &outs);
  if (!status)
    status =
        editor->CreateNode(NODE_OP, NODE_DOMAIN, name, ins, in.count, outs,
                           out_values.count, one->attrs, one->attr_count, out);
  free(in.items);
  free(out_values.items);
  free(ins);
  free(outs);
  return status;
}

static ort_status *write_with(writing *one, const options *given,
                              const char *device, const keel_program *program,
                              const ort_graph *graph, const ort_node *fused,
                              ort_node **out) {
  const ort_editor_api *editor = ort->GetModelEditorApi();
  const char *name = NULL;
  if (!editor)
    return failure(ORT_NOT_IMPLEMENTED,
                   "Keel: this build of ONNX Runtime writes no models, so "
                   "ep.context_enable cannot be used");
  TRY(ort->Node_GetName(fused, &name));
  TRY_KEEL(keel_program_write(program, 0, take_sum, &one->check));
  TRY(given->context_embed ? embed(one, program)
                           : put_beside(one, program, given, graph));
  TRY(add_attributes(one, given, device, name));
  return make_node(one, editor, fused, name, out);
}

ort_status *context_write(const options *given, const char *device,
                          const keel_program *program, const ort_graph *graph,
                          const ort_node *fused, ort_node **out) {
  writing one = {0};
  ort_status *status =
      write_with(&one, given, device, program, graph, fused, out);
  writing_free(&one);
  return status;
}

/* ---- reading -------------------------------------------------------------------- */

/* A node that is being read. */
typedef struct reading {
  const char *node;
  char *file;        /* its file's path; NULL: embedded */
  const char *model; /* the path of the model that names it */
  void *content;     /* ep_cache_context */
  size_t size;
  void *notes; /* of the program that was written: text */
} reading;

/* Damage has one cure. */
static ort_status *damaged(const reading *one, const char *what) {
  return failure(ORT_INVALID_ARGUMENT,
                 "Keel: compiled node %.200s %s: compile the model again "
                 "(ep.context_enable), or copy it again with the files beside "
                 "it",
                 one->node, what);
}

/* Refuses a format that this Keel cannot read. */
static ort_status *check_format(const reading *one) {
  const size_t begin = sizeof NOTES_BEGIN - 1;
  const char *text = one->notes;
  if (!text || strncmp(text, NOTES_BEGIN, begin) != 0)
    return damaged(one, "does not state its contents");
  unsigned long format = strtoul(text + begin, NULL, 10);
  if (format == CONTEXT_FORMAT) return NULL;
  return failure(ORT_NOT_IMPLEMENTED,
                 "Keel: compiled node %.200s is in format %lu, and this Keel "
                 "(%s) knows format %d: compile the model again with it",
                 one->node, format, keel_version(), CONTEXT_FORMAT);
}

static ort_status *check_device(const reading *one, const ort_node *node,
                                const char *device) {
  void *text = NULL;
  size_t size = 0;
  TRY(context_read_attr(node, "hardware_architecture", ORT_OP_ATTR_STRING,
                        &text, &size));
  ort_status *status = NULL;
  if (!text)
    status = damaged(one, "does not say which device it is for");
  else if (strcmp(text, device) != 0)
    status = failure(ORT_INVALID_ARGUMENT,
                     "Keel: compiled node %.200s is for %.80s, and this "
                     "session runs on %s: give the session that device, or "
                     "compile the model again for %s",
                     one->node, (char *)text, device, device);
  free(text);
  return status;
}

static ort_status *find_file(reading *one, const options *given,
                             const ort_graph *graph) {
  const char *model = NULL, *name = one->content;
  TRY(ort->Graph_GetModelPath(graph, &model));
  if (!*model) model = given->context_path;
  if (strlen(name) != one->size || !context_stays(name))
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: compiled node %.200s names the file \"%.200s\", "
                   "which is not in the model's folder: refused",
                   one->node, name);
  if (!model)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: compiled node %.200s needs the file %.200s beside "
                   "the model, which was given without a path: set "
                   "ep.context_file_path to the model's path",
                   one->node, name);
  one->model = model;
  one->file = beside(model, name);
  return one->file ? NULL : no_memory();
}

static bool same(const reading *one, const void *data, uint64_t size) {
  sum check = {0};
  sum_add(&check, data, size);
  return !strcmp(notes_of(&check).text, one->notes);
}

/* Whether a path without links lies in the folder of another, or below. */
static bool lies_in_folder_of(const char *path, const char *other) {
  const char *slash = strrchr(other, '/');
  size_t size = slash ? (size_t)(slash - other) + 1 : 0;
  return size && !strncmp(path, other, size);
}

/* Whether the opened file lies beside the model, or beside what the model is a link to: as
 * external data of ONNX does. */
static bool lies_beside(int file, const char *model) {
  char link[64], opened[PATH_MAX], folder[PATH_MAX], path[PATH_MAX + 2];
  const char *slash = strrchr(model, '/');
  int size = slash ? (int)(slash + 1 - model) : 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (!realpath(link, opened) || size >= PATH_MAX) return false;
  snprintf(path, sizeof path, "%.*s", size ? size : 1, size ? model : ".");
  if (!realpath(path, folder)) return false;
  snprintf(path, sizeof path, "%s/", strcmp(folder, "/") ? folder : "");
  return lies_in_folder_of(opened, path) ||
         (realpath(model, folder) && lies_in_folder_of(opened, folder));
}

/* Whether the file has the bytes; -1: it cannot be read. */
static int file_is_whole(const reading *one) {
  struct stat facts;
  int file = open(one->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int whole = -1;
  if (file < 0) return -1;
  if (!lies_beside(file, one->model)) {
    errno = EXDEV; /* a link that leads elsewhere */
  } else if (!fstat(file, &facts) && !S_ISREG(facts.st_mode)) {
    errno = EINVAL;
  } else if (!fstat(file, &facts)) {
    uint64_t size = (uint64_t)facts.st_size;
    void *data =
        size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    if (data != MAP_FAILED) whole = size ? same(one, data, size) : 0;
    if (data && data != MAP_FAILED) munmap(data, size);
  }
  int error = errno;
  close(file);
  errno = error;
  return whole;
}

static ort_status *context_load(const reading *one, keel_context *context,
                                keel_program **out) {
  if (!one->file) {
    if (!same(one, one->content, one->size))
      return damaged(one,
                     "is damaged: its program is not the one that was "
                     "written");
    TRY_KEEL(keel_program_load_memory(context, one->node, one->content,
                                      one->size, out));
    return NULL;
  }
  int whole = file_is_whole(one);
  if (whole < 0 && (errno == EXDEV || errno == EINVAL))
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: compiled node %.200s names %.400s, which %s: refused",
                   one->node, one->file,
                   errno == EXDEV ? "leads out of the model's folder by a link"
                                  : "is not a regular file");
  if (whole < 0)
    return failure(ORT_NOT_FOUND,
                   "Keel: compiled node %.200s needs %.400s: %s: copy the "
                   "file to there, or compile the model again",
                   one->node, one->file, strerror(errno));
  if (!whole)
    return damaged(one,
                   "is damaged: the file beside the model is not the "
                   "one that was written");
  TRY_KEEL(keel_program_load(context, one->file, out));
  return NULL;
}

static ort_status *read_with(reading *one, const options *given,
                             const target *to, const ort_graph *graph,
                             const ort_node *node, keel_program **out) {
  void *mode = NULL;
  size_t size = 0;
  TRY(ort->Node_GetName(node, &one->node));
  TRY(context_read_attr(node, "notes", ORT_OP_ATTR_STRING, &one->notes, &size));
  TRY(check_format(one));
  TRY(check_device(one, node, to->name));
  TRY(context_read_attr(node, "ep_cache_context", ORT_OP_ATTR_STRING,
                        &one->content, &one->size));
  if (!one->content) return damaged(one, "holds no program");
  TRY(context_read_attr(node, "embed_mode", ORT_OP_ATTR_INT, &mode, &size));
  bool embedded = !mode || *(int64_t *)mode; /* the op's default */
  free(mode);
  if (!embedded) TRY(find_file(one, given, graph));
  return context_load(one, to->context, out);
}

ort_status *context_read(const options *given, const target *to,
                         const ort_graph *graph, const ort_node *node,
                         keel_program **out) {
  reading one = {0};
  ort_status *status = read_with(&one, given, to, graph, node, out);
  free(one.notes);
  free(one.content);
  free(one.file);
  return status;
}
