/* image_read.c - a mapped file becomes a program: each record is checked as it is read,
 * and the whole once more by keel_program_verify. */
#include "base/refs.h"
#include "program/image.h"
#include "program/verify.h"
#include "values/strings.h"

typedef struct reader {
  const char *path;
  keel_context *context;
  keel_program *program;
  const uint8_t *bytes;
  uint64_t size;
  image_head head;
  uint32_t next[IMAGE_STREAMS]; /* records taken */
  const keel_type **types;      /* by number */
  keel_tensor **tensors;        /* retained */
  const keel_schema **ops;
  keel_function **functions;
  bool *taken; /* by function: a node has it */
  uint32_t type_count, tensor_count, op_count, function_count;
} reader;

/* Records of a later version may be longer; plain numbers have no size of their own. */
static const struct {
  uint32_t size;
  bool grows;
} records[IMAGE_STREAMS] = {
    [IMAGE_STRINGS] = {1, false},
    [IMAGE_TYPES] = {sizeof(image_type), true},
    [IMAGE_DIMS] = {sizeof(int64_t), false},
    [IMAGE_TENSORS] = {sizeof(image_tensor), true},
    [IMAGE_ITEMS] = {sizeof(uint32_t), false},
    [IMAGE_OPS] = {sizeof(image_op), true},
    [IMAGE_FUNCTIONS] = {sizeof(image_function), true},
    [IMAGE_PORTS] = {sizeof(image_port), true},
    [IMAGE_VALUES] = {sizeof(image_value), true},
    [IMAGE_NODES] = {sizeof(image_node), true},
    [IMAGE_ATTRS] = {sizeof(image_attr), true},
    [IMAGE_WORDS] = {sizeof(uint32_t), false},
    [IMAGE_LONGS] = {sizeof(int64_t), false},
    [IMAGE_FLOATS] = {sizeof(float), false},
    [IMAGE_SYMBOLS] = {sizeof(uint32_t), false},
    [IMAGE_FORMS] = {sizeof(image_form), true},
};

static keel_status damaged(const reader *all, const char *what) {
  return keel_fail(KD_DATA_LOSS, "%s: is damaged: %s; compile the model again",
                   all->path, what);
}

/* ---- the head ------------------------------------------------------------------ */

bool keel_image_is(const void *data, uint64_t size) {
  return size >= 8 && !memcmp(data, IMAGE_MAGIC, 8);
}

static keel_status check_parts(const reader *all) {
  for (int i = 0; i < IMAGE_STREAMS; i++) {
    const image_part *part = &all->head.parts[i];
    uint64_t bytes = (uint64_t)part->count * part->size;
    bool sized = records[i].grows
                     ? part->size >= records[i].size && part->size % 8 == 0
                     : part->size == records[i].size;
    if (!sized || part->offset < all->head.head_size || part->offset % 8 ||
        part->offset > all->head.data || bytes > all->head.data - part->offset)
      return damaged(all, "a stream reaches beyond the file");
  }
  const image_part *strings = &all->head.parts[IMAGE_STRINGS];
  if (!strings->count || all->bytes[strings->offset + strings->count - 1])
    return damaged(all, "its strings are not terminated");
  return KD_OK;
}

static keel_status read_head(reader *all) {
  image_head *head = &all->head;
  if (all->size < offsetof(image_head, head_size))
    return damaged(all, "its header is truncated");
  memcpy(head, all->bytes, all->size < sizeof *head ? all->size : sizeof *head);
  if (head->needs > IMAGE_VERSION)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: is in version %u of the program format, and its"
                     " reader must know version %u; this Keel (%s) knows"
                     " version %u: update Keel, or compile the model with this"
                     " one",
                     all->path, (unsigned)head->version, (unsigned)head->needs,
                     KEEL_VERSION, (unsigned)IMAGE_VERSION);
  if (head->head_size < IMAGE_HEAD_1 || head->head_size % 8 ||
      head->head_size > all->size)
    return damaged(all, "its header is truncated");
  for (int i = 0; i < IMAGE_STREAMS; i++) /* those that its version had not */
    if (offsetof(image_head, parts) + (size_t)(i + 1) * sizeof *head->parts >
        head->head_size)
      head->parts[i] =
          (image_part){.offset = head->head_size, .size = records[i].size};
  if (head->file_size != all->size)
    return keel_fail(KD_DATA_LOSS,
                     "%s: is damaged: it has %llu bytes, and was written with"
                     " %llu; copy it, or compile the model again",
                     all->path, (unsigned long long)all->size,
                     (unsigned long long)head->file_size);
  if (head->data < head->head_size || head->data > all->size ||
      head->data % IMAGE_ALIGN)
    return damaged(all, "its data is at an impossible offset");
  if (keel_hash(KEEL_HASH_SEED, all->bytes + head->head_size,
                head->data - head->head_size) != head->check)
    return damaged(all, "its checksum is wrong");
  return check_parts(all);
}

/* ---- streams --------------------------------------------------------------------- */

static uint32_t count_of(const reader *all, image_stream stream) {
  return all->head.parts[stream].count;
}

/* The next `count` records of a stream, or NULL where there are not as many. */
static const void *image_read_take(reader *all, image_stream stream,
                                   uint32_t count) {
  const image_part *part = &all->head.parts[stream];
  if (count > part->count - all->next[stream]) return NULL;
  const void *at =
      all->bytes + part->offset + (uint64_t)all->next[stream] * part->size;
  all->next[stream] += count;
  return at;
}

#define TAKE(all, stream, to)                                  \
  do {                                                         \
    (to) = image_read_take(all, stream, 1);                    \
    if (!(to)) return damaged(all, "a stream ends too early"); \
  } while (0)

static keel_status string_at(const reader *all, uint32_t place,
                             const char **out_text) {
  const image_part *strings = &all->head.parts[IMAGE_STRINGS];
  if (place >= strings->count) return damaged(all, "a name is missing");
  *out_text = (const char *)all->bytes + strings->offset + place;
  return KD_OK;
}

/* ---- objects by number ------------------------------------------------------------ */

static keel_status read_types(reader *all) {
  uint32_t n = count_of(all, IMAGE_TYPES);
  all->types = calloc((size_t)n + 1, sizeof *all->types);
  if (!all->types) return keel_no_memory(n * sizeof *all->types);
  for (; all->type_count < n; all->type_count++) {
    const image_type *record = NULL;
    TAKE(all, IMAGE_TYPES, record);
    const int64_t *dims = record->rank <= KD_MAX_RANK
                              ? image_read_take(all, IMAGE_DIMS, record->rank)
                              : NULL;
    if (!dims) return damaged(all, "a type has no dimensions");
    keel_status status = keel_type_of(record->dtype, record->rank, dims,
                                      &all->types[all->type_count]);
    if (status != KD_OK)
      return keel_while(status, "while reading %s", all->path);
  }
  return KD_OK;
}

static keel_status read_data(reader *all, const image_tensor *record,
                             keel_tensor **out_tensor) {
  const keel_type *type =
      record->type < all->type_count ? all->types[record->type] : NULL;
  uint64_t capacity = all->size - all->head.data;
  if (!type || !keel_type_known(type) || type->dtype == KD_STRING ||
      record->at % IMAGE_ALIGN || record->at > capacity ||
      type->bytes > capacity - record->at)
    return damaged(all, "a tensor's data reaches beyond the file");
  return keel_mapping_wrap(all->program->mapping, all->context, type,
                           all->bytes + all->head.data + record->at,
                           out_tensor);
}

static keel_status read_strings_tensor(reader *all, const image_tensor *record,
                                       keel_tensor **out_tensor) {
  const keel_type *type =
      record->type < all->type_count ? all->types[record->type] : NULL;
  uint64_t capacity = all->size - all->head.data;
  if (!type || !keel_type_known(type) || type->dtype != KD_STRING ||
      record->at % IMAGE_ALIGN || record->at > capacity)
    return damaged(all, "strings reach beyond the file");
  keel_status status = keel_strings_read(
      all->context, type, all->bytes + all->head.data + record->at,
      capacity - record->at, out_tensor);
  return status == KD_DATA_LOSS
             ? damaged(all, "the strings of a tensor do not end")
             : status;
}

static keel_status read_sequence(reader *all, const image_tensor *record,
                                 keel_tensor **out_tensor) {
  const uint32_t *items =
      record->at <= UINT32_MAX
          ? image_read_take(all, IMAGE_ITEMS, (uint32_t)record->at)
          : NULL;
  if (!items) return damaged(all, "a sequence has no items");
  keel_tensor **list = calloc(record->at + 1, sizeof *list);
  keel_status status = list ? KD_OK : keel_no_memory(record->at);
  for (uint64_t i = 0; i < record->at && status == KD_OK; i++)
    if (items[i] < all->tensor_count &&
        (all->tensors[items[i]]->kind == KEEL_DATA ||
         keel_is_strings(all->tensors[items[i]])))
      list[i] = all->tensors[items[i]];
    else
      status = damaged(all, "an item of a sequence is not an earlier tensor");
  if (status == KD_OK)
    status = keel_sequence_create(all->context, list, (uint32_t)record->at,
                                  out_tensor);
  free(list);
  return status;
}

static keel_status read_tensors(reader *all) {
  uint32_t n = count_of(all, IMAGE_TENSORS);
  all->tensors = calloc((size_t)n + 1, sizeof *all->tensors);
  if (!all->tensors) return keel_no_memory(n * sizeof *all->tensors);
  for (; all->tensor_count < n; all->tensor_count++) {
    const image_tensor *record = NULL;
    keel_tensor **to = &all->tensors[all->tensor_count];
    TAKE(all, IMAGE_TENSORS, record);
    if (record->kind == KEEL_DATA)
      KEEL_TRY(read_data(all, record, to));
    else if (record->kind == KEEL_STRINGS)
      KEEL_TRY(read_strings_tensor(all, record, to));
    else if (record->kind == KEEL_SEQUENCE)
      KEEL_TRY(read_sequence(all, record, to));
    else if (record->kind == KEEL_OPTIONAL_EMPTY)
      KEEL_TRY(keel_optional_empty(all->context, to));
    else
      return damaged(all, "a tensor is of an unknown kind");
  }
  return KD_OK;
}

static keel_status read_ops(reader *all) {
  uint32_t n = count_of(all, IMAGE_OPS);
  all->ops = calloc((size_t)n + 1, sizeof *all->ops);
  if (!all->ops) return keel_no_memory(n * sizeof *all->ops);
  for (; all->op_count < n; all->op_count++) {
    const image_op *record = NULL;
    const char *domain = "", *name = "";
    TAKE(all, IMAGE_OPS, record);
    KEEL_TRY(string_at(all, record->domain, &domain));
    KEEL_TRY(string_at(all, record->name, &name));
    KEEL_TRY(keel_verify_op(all->context, all->path, domain, name,
                            record->since, &all->ops[all->op_count]));
  }
  return KD_OK;
}

/* ---- functions ----------------------------------------------------------------------- */

static keel_status image_read_read_strings(reader *all, uint32_t count,
                                           keel_attr *attr,
                                           keel_arena *scratch) {
  const uint32_t *places = image_read_take(all, IMAGE_WORDS, count);
  if (!places) return damaged(all, "an attribute has no strings");
  const char **strings =
      keel_arena_take(scratch, ((size_t)count + 1) * sizeof *strings);
  if (!strings) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++)
    KEEL_TRY(string_at(all, places[i], &strings[i]));
  attr->strings = strings;
  return KD_OK;
}

static keel_status image_read_read_attr(reader *all, keel_attr *attr,
                                        keel_function **out_graph,
                                        keel_arena *scratch) {
  const image_attr *record = NULL;
  TAKE(all, IMAGE_ATTRS, record);
  *attr =
      (keel_attr){.kind = record->kind, .count = record->count, .i = record->i};
  KEEL_TRY(string_at(all, record->name, &attr->name));
  switch (record->kind) {
    case KD_ATTR_INT:
      return KD_OK;
    case KD_ATTR_FLOAT:
      memcpy(&attr->f, &record->at, sizeof attr->f);
      return KD_OK;
    case KD_ATTR_STRING:
      return string_at(all, record->at, &attr->s);
    case KD_ATTR_TENSOR:
      if (record->at >= all->tensor_count ||
          (all->tensors[record->at]->kind != KEEL_DATA &&
           !keel_is_strings(all->tensors[record->at])))
        return damaged(all, "an attribute has no tensor");
      attr->tensor = all->tensors[record->at];
      return KD_OK;
    case KD_ATTR_GRAPH:
      if (record->at >= all->function_count || all->taken[record->at])
        return damaged(all, "an attribute has no function of its own");
      all->taken[record->at] = true;
      *out_graph = all->functions[record->at];
      return KD_OK;
    case KD_ATTR_INTS:
      attr->ints = image_read_take(all, IMAGE_LONGS, record->count);
      return attr->ints ? KD_OK : damaged(all, "an attribute has no integers");
    case KD_ATTR_FLOATS:
      attr->floats = image_read_take(all, IMAGE_FLOATS, record->count);
      return attr->floats ? KD_OK : damaged(all, "an attribute has no floats");
    case KD_ATTR_STRINGS:
      return image_read_read_strings(all, record->count, attr, scratch);
    default:
      return damaged(all, "an attribute is of an unknown kind");
  }
}

/* An op with its attributes. */
static keel_status image_read_read_op(reader *all, const image_node *record,
                                      const char *name, keel_arena *scratch,
                                      keel_opdef **out_op) {
  uint32_t n = record->attr_count;
  if (record->op >= all->op_count) return damaged(all, "an op is missing");
  if (n > count_of(all, IMAGE_ATTRS) - all->next[IMAGE_ATTRS])
    return damaged(all, "a node has more attributes than there are");
  keel_attr *attrs = keel_arena_take(scratch, ((size_t)n + 1) * sizeof *attrs);
  keel_function **graphs =
      keel_arena_take(scratch, ((size_t)n + 1) * sizeof *graphs);
  if (!attrs || !graphs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    KEEL_TRY(image_read_read_attr(all, &attrs[i], &graphs[i], scratch));
  keel_status status = keel_opdef_create(all->context, all->ops[record->op],
                                         attrs, n, graphs, out_op);
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s, node \"%s\"",
                                      all->path, name);
}

/* The arrays of nodes stay where they lie in the file: programs do not change, and
 * what passes work on is a copy. */
static uint32_t *in_place(const uint32_t *words) {
  return (uint32_t *)(uintptr_t)words;
}

static keel_status image_read_read_node(reader *all, keel_node *node,
                                        keel_arena *scratch) {
  const image_node *record = NULL;
  const char *device = "";
  TAKE(all, IMAGE_NODES, record);
  KEEL_TRY(string_at(all, record->name, &node->name));
  KEEL_TRY(string_at(all, record->device, &device));
  KEEL_TRY(keel_verify_device(all->context, all->path, device, &node->device));
  node->input_count = record->input_count;
  node->output_count = record->output_count;
  node->output_layout =
      record->layout >= KD_LAYOUT_OWN ? record->layout : KD_LAYOUT_ROW_MAJOR;
  node->inputs = in_place(image_read_take(all, IMAGE_WORDS, node->input_count));
  node->outputs =
      in_place(image_read_take(all, IMAGE_WORDS, node->output_count));
  if (!node->inputs || !node->outputs)
    return damaged(all, "a node has no values");
  return image_read_read_op(all, record, node->name, scratch, &node->op);
}

#define KNOWN_FLAGS                                               \
  (KEEL_PORT_SEQUENCE | KEEL_PORT_OPTIONAL | KEEL_PORT_RESOURCE | \
   KEEL_PORT_DONATED)

/* Files of before version 2 have none. */
static keel_status read_symbols(reader *all, keel_port *port) {
  const uint32_t *names = image_read_take(all, IMAGE_SYMBOLS, port->rank);
  bool any = false;
  if (all->head.version < 2 || !port->rank) return KD_OK;
  if (!names) return damaged(all, "a port has no names of dimensions");
  const char **symbols =
      keel_arena_take(&all->program->arena, port->rank * sizeof *symbols);
  if (!symbols) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < port->rank; i++) {
    KEEL_TRY(string_at(all, names[i], &symbols[i]));
    if (!*symbols[i] || port->dims[i] >= 0) symbols[i] = NULL;
    any |= symbols[i] != NULL;
  }
  port->symbols = any ? symbols : NULL;
  return KD_OK;
}

static keel_status read_ports(reader *all, uint32_t count,
                              keel_port **out_ports) {
  if (count > count_of(all, IMAGE_PORTS) - all->next[IMAGE_PORTS])
    return damaged(all, "a function has more ports than there are");
  keel_port *ports = keel_arena_take(&all->program->arena,
                                     ((size_t)count + 1) * sizeof *ports);
  if (!ports) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    const image_port *record = NULL;
    TAKE(all, IMAGE_PORTS, record);
    KEEL_TRY(string_at(all, record->name, &ports[i].name));
    ports[i].dtype = record->dtype;
    ports[i].rank = record->rank;
    ports[i].flags = record->flags;
    if (record->flags & ~KNOWN_FLAGS)
      return damaged(all, "a port is of an unknown kind");
    if (record->rank == KEEL_RANK_UNKNOWN) continue;
    ports[i].dims = record->rank <= KD_MAX_RANK
                        ? image_read_take(all, IMAGE_LONGS, record->rank)
                        : NULL;
    if (!ports[i].dims) return damaged(all, "a port has no dimensions");
    KEEL_TRY(read_symbols(all, &ports[i]));
  }
  *out_ports = ports;
  return KD_OK;
}

static keel_status read_values(reader *all, keel_function *function,
                               uint32_t count) {
  if (count > count_of(all, IMAGE_VALUES) - all->next[IMAGE_VALUES])
    return damaged(all, "a function has more values than there are");
  function->values = keel_arena_take(
      function->arena, ((size_t)count + 1) * sizeof *function->values);
  if (!function->values) return KD_OUT_OF_MEMORY;
  function->value_capacity = count;
  for (uint32_t i = 0; i < count; i++) {
    const image_value *record = NULL;
    keel_value_info *value = &function->values[function->value_count++];
    value->producer = KEEL_ABSENT;
    TAKE(all, IMAGE_VALUES, record);
    KEEL_TRY(string_at(all, record->name, &value->name));
    if (record->constant == KEEL_ABSENT) continue;
    if (record->constant >= all->tensor_count)
      return damaged(all, "a constant is missing");
    value->constant = keel_tensor_retain(all->tensors[record->constant]);
    value->type = value->constant->type;
  }
  return KD_OK;
}

/* The inputs' types that the ports declare. */
static keel_status note_types(const reader *all, keel_function *function) {
  for (uint32_t i = 0; i < function->input_count; i++) {
    uint32_t value = function->inputs[i];
    if (value >= function->value_count)
      return damaged(all, "an input has no value");
    if (!function->values[value].constant)
      function->values[value].type = keel_port_type(&function->input_ports[i]);
  }
  return KD_OK;
}

static keel_status read_function(reader *all, keel_arena *scratch) {
  const image_function *record = NULL;
  const char *name = "";
  keel_function *function = NULL;
  TAKE(all, IMAGE_FUNCTIONS, record);
  KEEL_TRY(string_at(all, record->name, &name));
  KEEL_TRY(keel_function_create(all->context, &all->program->arena,
                                &all->program->functions, name, &function));
  function->input_count = record->input_count;
  function->output_count = record->output_count;
  function->capture_count = record->capture_count;
  KEEL_TRY(read_ports(all, record->input_count, &function->input_ports));
  KEEL_TRY(read_ports(all, record->output_count, &function->output_ports));
  KEEL_TRY(read_values(all, function, record->value_count));
  function->inputs =
      in_place(image_read_take(all, IMAGE_WORDS, record->input_count));
  function->outputs =
      in_place(image_read_take(all, IMAGE_WORDS, record->output_count));
  if (!function->inputs || !function->outputs)
    return damaged(all, "a function has no values");
  KEEL_TRY(note_types(all, function));
  if (record->node_count > count_of(all, IMAGE_NODES) - all->next[IMAGE_NODES])
    return damaged(all, "a function has more nodes than there are");
  function->nodes =
      keel_arena_take(function->arena, ((size_t)record->node_count + 1) *
                                           sizeof *function->nodes);
  if (!function->nodes) return KD_OUT_OF_MEMORY;
  function->node_capacity = record->node_count;
  for (uint32_t i = 0; i < record->node_count; i++)
    KEEL_TRY(image_read_read_node(all, &function->nodes[function->node_count++],
                                  scratch));
  all->functions[all->function_count++] = function;
  return KD_OK;
}

static keel_status read_functions(reader *all) {
  uint32_t n = count_of(all, IMAGE_FUNCTIONS);
  if (!n) return damaged(all, "it has no function");
  all->functions = calloc((size_t)n + 1, sizeof *all->functions);
  all->taken = calloc((size_t)n + 1, sizeof *all->taken);
  if (!all->functions || !all->taken)
    return keel_no_memory(n * sizeof *all->functions);
  for (uint32_t i = 0; i < n; i++) {
    keel_arena scratch = {0};
    keel_status status = read_function(all, &scratch);
    keel_arena_free(&scratch);
    if (status != KD_OK) return status;
  }
  all->program->main = all->functions[n - 1];
  for (uint32_t i = 0; i + 1 < n; i++)
    if (!all->taken[i]) return damaged(all, "a function has no node");
  return KD_OK;
}

/* ---- compiled forms ---------------------------------------------------------------- */

/* They are looked at when a plan is made, and stay where they lie. In another order than
 * that of their keys, which no two share, they could not be found. */
static keel_status read_form(reader *all, keel_form *form) {
  const image_form *record = NULL;
  uint64_t capacity = all->size - all->head.data;
  TAKE(all, IMAGE_FORMS, record);
  if (record->at % IMAGE_ALIGN || record->at > capacity ||
      record->size > capacity - record->at)
    return damaged(all, "a compiled form reaches beyond the file");
  *form = (keel_form){.graph = {record->graph[0], record->graph[1]},
                      .options = record->options,
                      .data = all->bytes + all->head.data + record->at,
                      .size = record->size,
                      .sum = record->sum};
  return string_at(all, record->maker, &form->maker);
}

static keel_status read_forms(reader *all) {
  keel_forms *forms = &all->program->forms;
  uint32_t n = count_of(all, IMAGE_FORMS);
  forms->list = calloc((size_t)n + 1, sizeof *forms->list);
  if (!forms->list) return keel_no_memory(n * sizeof *forms->list);
  forms->capacity = n;
  for (; forms->count < n; forms->count++) {
    keel_form *form = &forms->list[forms->count];
    KEEL_TRY(read_form(all, form));
    if (forms->count && keel_form_order(form - 1, form) >= 0)
      return damaged(all, "its compiled forms are not in order");
  }
  return KD_OK;
}

static keel_status image_read_read_all(reader *all) {
  const char *device = "";
  KEEL_TRY(read_head(all));
  KEEL_TRY(string_at(all, all->head.device, &device));
  KEEL_TRY(keel_verify_device(all->context, all->path, device,
                              &all->program->device));
  KEEL_TRY(read_types(all));
  KEEL_TRY(read_tensors(all));
  KEEL_TRY(read_ops(all));
  KEEL_TRY(read_functions(all));
  KEEL_TRY(read_forms(all));
  return keel_program_verify(all->program, all->path);
}

keel_status keel_image_read(keel_context *context, const char *path,
                            keel_file *file, keel_program **out_program) {
  reader all = {.path = path,
                .context = context,
                .bytes = file->data,
                .size = file->size};
  keel_mapping *mapping = NULL;
  KEEL_TRY(keel_mapping_create(file, &mapping));
  keel_status status = keel_program_create(context, &all.program);
  if (status != KD_OK) {
    keel_mapping_release(mapping);
    return status;
  }
  all.program->mapping = mapping;
  status = image_read_read_all(&all);
  for (uint32_t i = 0; i < all.tensor_count; i++)
    keel_tensor_release(all.tensors[i]);
  free(all.types);
  free(all.tensors);
  free(all.ops);
  free(all.functions);
  free(all.taken);
  if (status != KD_OK) {
    keel_program_release(all.program);
    return status;
  }
  *out_program = all.program;
  return KD_OK;
}
