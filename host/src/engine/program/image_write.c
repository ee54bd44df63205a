/* image_write.c - writes a program in its binary form. */
#include "device/device.h"
#include "memory/access.h"
#include "memory/copy.h"
#include "program/function.h"
#include "program/image.h"
#include "values/strings.h"

/* A stream, as far as it is written. */
typedef struct bytes {
  char *data;
  size_t size, capacity;
} bytes;

/* Objects seen before, and their numbers: by address, or by text. */
typedef struct seen {
  const void *key;
  uint32_t number;
} seen;

typedef struct table {
  seen *slots;
  uint32_t count, capacity; /* a power of two */
} table;

typedef struct writer {
  const keel_program *program;
  bytes streams[IMAGE_STREAMS];
  uint32_t counts[IMAGE_STREAMS];
  table strings, types, tensors, ops;
  const keel_tensor **data; /* host data, in the order of the file; retained */
  uint32_t data_count, data_capacity;
  uint64_t data_size;
} writer;

static const uint32_t sizes[IMAGE_STREAMS] = {
    [IMAGE_STRINGS] = 1,
    [IMAGE_TYPES] = sizeof(image_type),
    [IMAGE_DIMS] = sizeof(int64_t),
    [IMAGE_TENSORS] = sizeof(image_tensor),
    [IMAGE_ITEMS] = sizeof(uint32_t),
    [IMAGE_OPS] = sizeof(image_op),
    [IMAGE_FUNCTIONS] = sizeof(image_function),
    [IMAGE_PORTS] = sizeof(image_port),
    [IMAGE_VALUES] = sizeof(image_value),
    [IMAGE_NODES] = sizeof(image_node),
    [IMAGE_ATTRS] = sizeof(image_attr),
    [IMAGE_WORDS] = sizeof(uint32_t),
    [IMAGE_LONGS] = sizeof(int64_t),
    [IMAGE_FLOATS] = sizeof(float),
    [IMAGE_SYMBOLS] = sizeof(uint32_t),
    [IMAGE_FORMS] = sizeof(image_form),
};

/* ---- streams and tables ------------------------------------------------------- */

/* Adds `count` records. */
static keel_status image_write_put(writer *all, image_stream stream,
                                   const void *records, size_t count) {
  bytes *to = &all->streams[stream];
  size_t size = count * sizes[stream];
  if (count > UINT32_MAX - 1 - all->counts[stream])
    return keel_fail(KD_OUT_OF_RANGE, "the program is too large for a file");
  if (to->size + size > to->capacity) {
    size_t capacity = (to->size + size) * 2 + 256;
    char *data = realloc(to->data, capacity);
    if (!data) return keel_no_memory(capacity);
    to->data = data;
    to->capacity = capacity;
  }
  if (size) memcpy(to->data + to->size, records, size);
  to->size += size;
  all->counts[stream] += (uint32_t)count;
  return KD_OK;
}

static keel_status put_word(writer *all, uint32_t word) {
  return image_write_put(all, IMAGE_WORDS, &word, 1);
}

static uint64_t hash_of(const void *key, bool text) {
  return text ? keel_hash_string(KEEL_HASH_SEED, key)
              : keel_hash(KEEL_HASH_SEED, &key, sizeof key);
}

static seen *image_write_slot_of(const table *t, const void *key, bool text) {
  uint64_t at = hash_of(key, text);
  for (;; at++) {
    seen *slot = &t->slots[at & (t->capacity - 1)];
    if (!slot->key || slot->key == key || (text && !strcmp(slot->key, key)))
      return slot;
  }
}

/* The slot of a key; its own key is NULL where it was not seen. NULL: no memory. */
static seen *image_write_find(table *t, const void *key, bool text) {
  if (t->count * 2 >= t->capacity) {
    uint32_t capacity = t->capacity ? t->capacity * 2 : 256;
    table more = {calloc(capacity, sizeof *more.slots), t->count, capacity};
    if (!more.slots) {
      keel_no_memory(capacity * sizeof *more.slots);
      return NULL;
    }
    for (uint32_t i = 0; i < t->capacity; i++)
      if (t->slots[i].key)
        *image_write_slot_of(&more, t->slots[i].key, text) = t->slots[i];
    free(t->slots);
    *t = more;
  }
  return image_write_slot_of(t, key, text);
}

static void image_write_note(table *t, seen *slot, const void *key,
                             uint32_t number) {
  *slot = (seen){key, number};
  t->count++;
}

/* ---- objects by number --------------------------------------------------------- */

static keel_status string_of(writer *all, const char *text,
                             uint32_t *out_place) {
  if (!text) text = "";
  seen *slot = image_write_find(&all->strings, text, true);
  if (!slot) return KD_OUT_OF_MEMORY;
  if (!slot->key) {
    image_write_note(&all->strings, slot, text, all->counts[IMAGE_STRINGS]);
    KEEL_TRY(image_write_put(all, IMAGE_STRINGS, text, strlen(text) + 1));
  }
  *out_place = slot->number;
  return KD_OK;
}

static keel_status image_write_type_of(writer *all, const keel_type *type,
                                       uint32_t *out_number) {
  seen *slot = image_write_find(&all->types, type, false);
  if (!slot) return KD_OUT_OF_MEMORY;
  if (!slot->key) {
    const image_type record = {type->dtype, type->rank};
    image_write_note(&all->types, slot, type, all->counts[IMAGE_TYPES]);
    KEEL_TRY(image_write_put(all, IMAGE_TYPES, &record, 1));
    KEEL_TRY(image_write_put(all, IMAGE_DIMS, type->dims, type->rank));
  }
  *out_number = slot->number;
  return KD_OK;
}

/* Where so many bytes of data are to lie, behind those before. */
static uint64_t place_bytes(writer *all, uint64_t size) {
  uint64_t at = all->data_size;
  all->data_size += (size + IMAGE_ALIGN - 1) & ~(uint64_t)(IMAGE_ALIGN - 1);
  return at;
}

/* Where a tensor's data is to lie. */
static keel_status place_data(writer *all, keel_tensor *tensor,
                              uint64_t *out_at) {
  keel_tensor *here = NULL;
  if (!KEEL_ROOM(all->data, all->data_count, all->data_capacity))
    return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_tensor_to_host(tensor, &here));
  all->data[all->data_count++] = here;
  *out_at = place_bytes(all, here->type->bytes);
  return KD_OK;
}

/* The same of strings: offsets and text, as they are in memory. */
static keel_status place_strings(writer *all, const keel_tensor *tensor,
                                 uint64_t *out_at) {
  keel_tensor *bytes = NULL;
  int64_t size = (int64_t)keel_strings_bytes(tensor->strings);
  KEEL_TRY(keel_tensor_create(tensor->context, KD_U8, 1, &size,
                              tensor->strings->offsets, &bytes));
  keel_status status = place_data(all, bytes, out_at);
  keel_tensor_release(bytes);
  return status;
}

static keel_status tensor_of(writer *all, keel_tensor *tensor,
                             uint32_t *out_number) {
  KEEL_TRY(keel_tensor_wait_known(tensor));
  seen *slot = image_write_find(&all->tensors, tensor, false);
  if (!slot) return KD_OUT_OF_MEMORY;
  if (slot->key) {
    *out_number = slot->number;
    return KD_OK;
  }
  image_tensor record = {.kind = tensor->kind};
  uint32_t *items = calloc(tensor->item_count + 1, sizeof *items);
  keel_status status = items ? KD_OK : keel_no_memory(tensor->item_count);
  if (status == KD_OK && tensor->kind == KEEL_DATA) {
    status = image_write_type_of(all, tensor->type, &record.type);
    if (status == KD_OK) status = place_data(all, tensor, &record.at);
  }
  if (status == KD_OK && tensor->kind == KEEL_STRINGS) {
    status = image_write_type_of(all, tensor->type, &record.type);
    if (status == KD_OK) status = place_strings(all, tensor, &record.at);
  }
  for (uint32_t i = 0; i < tensor->item_count && status == KD_OK; i++)
    status = tensor_of(all, tensor->items[i], &items[i]);
  if (tensor->kind == KEEL_SEQUENCE) record.at = tensor->item_count;
  if (status == KD_OK)
    status = image_write_put(all, IMAGE_ITEMS, items, tensor->item_count);
  free(items);
  if (status != KD_OK) return status;
  *out_number = all->counts[IMAGE_TENSORS];
  slot = image_write_find(&all->tensors, tensor,
                          false); /* items may have moved it */
  if (!slot) return KD_OUT_OF_MEMORY;
  image_write_note(&all->tensors, slot, tensor, *out_number);
  return image_write_put(all, IMAGE_TENSORS, &record, 1);
}

static keel_status op_of(writer *all, const keel_schema *schema,
                         uint32_t *out_number) {
  seen *slot = image_write_find(&all->ops, schema, false);
  if (!slot) return KD_OUT_OF_MEMORY;
  if (!slot->key) {
    image_op record = {.since = schema->since};
    image_write_note(&all->ops, slot, schema, all->counts[IMAGE_OPS]);
    KEEL_TRY(string_of(all, schema->domain, &record.domain));
    KEEL_TRY(string_of(all, schema->name, &record.name));
    KEEL_TRY(image_write_put(all, IMAGE_OPS, &record, 1));
  }
  *out_number = slot->number;
  return KD_OK;
}

/* ---- functions ------------------------------------------------------------------ */

static keel_status put_attr(writer *all, const keel_node_attr *from,
                            const uint32_t *graphs) {
  const keel_attr *attr = &from->value;
  image_attr record = {.kind = attr->kind};
  KEEL_TRY(string_of(all, attr->name, &record.name));
  switch (attr->kind) {
    case KD_ATTR_INT:
      record.i = attr->i;
      break;
    case KD_ATTR_FLOAT:
      memcpy(&record.at, &attr->f, sizeof attr->f);
      break;
    case KD_ATTR_STRING:
      KEEL_TRY(string_of(all, attr->s, &record.at));
      break;
    case KD_ATTR_TENSOR:
      KEEL_TRY(tensor_of(all, attr->tensor, &record.at));
      break;
    case KD_ATTR_GRAPH:
      record.at = *graphs;
      break;
    case KD_ATTR_INTS:
      record.count = attr->count;
      KEEL_TRY(image_write_put(all, IMAGE_LONGS, attr->ints, attr->count));
      break;
    case KD_ATTR_FLOATS:
      record.count = attr->count;
      KEEL_TRY(image_write_put(all, IMAGE_FLOATS, attr->floats, attr->count));
      break;
    case KD_ATTR_STRINGS:
      record.count = attr->count;
      for (uint32_t i = 0; i < attr->count; i++) {
        uint32_t place = 0;
        KEEL_TRY(string_of(all, attr->strings[i], &place));
        KEEL_TRY(put_word(all, place));
      }
      break;
    default:
      return keel_fail(KD_INTERNAL, "an attribute of kind %u cannot be written",
                       (unsigned)attr->kind);
  }
  return image_write_put(all, IMAGE_ATTRS, &record, 1);
}

static keel_status put_node(writer *all, const keel_node *node,
                            const uint32_t **graphs) {
  image_node record = {.attr_count = node->op->attr_count,
                       .input_count = node->input_count,
                       .output_count = node->output_count,
                       .layout = node->output_layout};
  KEEL_TRY(op_of(all, node->op->schema, &record.op));
  KEEL_TRY(string_of(all, node->name, &record.name));
  KEEL_TRY(
      string_of(all, node->device ? node->device->name : "", &record.device));
  KEEL_TRY(image_write_put(all, IMAGE_NODES, &record, 1));
  KEEL_TRY(image_write_put(all, IMAGE_WORDS, node->inputs, node->input_count));
  KEEL_TRY(
      image_write_put(all, IMAGE_WORDS, node->outputs, node->output_count));
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const keel_node_attr *attr = &node->op->attrs[i];
    KEEL_TRY(put_attr(all, attr, *graphs));
    *graphs += attr->value.kind == KD_ATTR_GRAPH;
  }
  return KD_OK;
}

static keel_status put_port(writer *all, const keel_port *port) {
  image_port record = {
      .dtype = port->dtype, .rank = port->rank, .flags = port->flags};
  KEEL_TRY(string_of(all, port->name, &record.name));
  KEEL_TRY(image_write_put(all, IMAGE_PORTS, &record, 1));
  if (port->rank == KEEL_RANK_UNKNOWN) return KD_OK;
  for (uint32_t i = 0; i < port->rank; i++) {
    uint32_t symbol = 0;
    const char *name = port->symbols ? port->symbols[i] : NULL;
    KEEL_TRY(string_of(all, name ? name : "", &symbol));
    KEEL_TRY(image_write_put(all, IMAGE_SYMBOLS, &symbol, 1));
  }
  return image_write_put(all, IMAGE_LONGS, port->dims, port->rank);
}

/* With constants that have a reader: passes leave constants behind that they have replaced. */
static keel_status put_values(writer *all, const keel_function *function) {
  keel_uses uses = {0};
  keel_status status = keel_uses_count(function, &uses);
  for (uint32_t i = 0; i < function->value_count && status == KD_OK; i++) {
    const keel_value_info *value = &function->values[i];
    image_value one = {.constant = KEEL_ABSENT};
    status = string_of(all, value->name, &one.name);
    if (status == KD_OK && value->constant && uses.counts[i])
      status = tensor_of(all, value->constant, &one.constant);
    if (status == KD_OK) status = image_write_put(all, IMAGE_VALUES, &one, 1);
  }
  keel_uses_drop(&uses);
  return status;
}

/* All of a function but those nested in it, whose numbers are in `graphs`. */
static keel_status put_one(writer *all, const keel_function *function,
                           const uint32_t *graphs) {
  image_function record = {.value_count = function->value_count,
                           .input_count = function->input_count,
                           .output_count = function->output_count,
                           .capture_count = function->capture_count};
  for (uint32_t i = 0; i < function->node_count; i++)
    record.node_count += !function->nodes[i].dead;
  KEEL_TRY(string_of(all, function->name, &record.name));
  KEEL_TRY(image_write_put(all, IMAGE_FUNCTIONS, &record, 1));
  for (uint32_t i = 0; i < function->input_count; i++)
    KEEL_TRY(put_port(all, &function->input_ports[i]));
  for (uint32_t i = 0; i < function->output_count; i++)
    KEEL_TRY(put_port(all, &function->output_ports[i]));
  KEEL_TRY(put_values(all, function));
  KEEL_TRY(image_write_put(all, IMAGE_WORDS, function->inputs,
                           function->input_count));
  KEEL_TRY(image_write_put(all, IMAGE_WORDS, function->outputs,
                           function->output_count));
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead)
      KEEL_TRY(put_node(all, &function->nodes[i], &graphs));
  return KD_OK;
}

static uint32_t count_graphs(const keel_function *function) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < function->node_count; i++)
    for (uint32_t k = 0;
         !function->nodes[i].dead && k < function->nodes[i].op->attr_count; k++)
      count += function->nodes[i].op->attrs[k].graph != NULL;
  return count;
}

static keel_status put_function(writer *all, const keel_function *function,
                                uint32_t *out_number) {
  uint32_t *graphs = calloc(count_graphs(function) + 1, sizeof *graphs);
  uint32_t *next = graphs;
  keel_status status = graphs ? KD_OK : keel_no_memory(sizeof *graphs);
  for (uint32_t i = 0; i < function->node_count; i++)
    for (uint32_t k = 0; status == KD_OK && !function->nodes[i].dead &&
                         k < function->nodes[i].op->attr_count;
         k++)
      if (function->nodes[i].op->attrs[k].graph)
        status =
            put_function(all, function->nodes[i].op->attrs[k].graph, next++);
  *out_number = all->counts[IMAGE_FUNCTIONS];
  if (status == KD_OK) status = put_one(all, function, graphs);
  free(graphs);
  return status;
}

/* ---- compiled forms ------------------------------------------------------------- */

/* Behind all tensors. */
static keel_status put_forms(writer *all, const keel_forms *forms) {
  for (uint32_t i = 0; i < forms->count; i++) {
    const keel_form *form = &forms->list[i];
    image_form record = {.graph = {form->graph.a, form->graph.b},
                         .options = form->options,
                         .at = place_bytes(all, form->size),
                         .size = form->size,
                         .sum = form->sum};
    KEEL_TRY(string_of(all, form->maker, &record.maker));
    KEEL_TRY(image_write_put(all, IMAGE_FORMS, &record, 1));
  }
  return KD_OK;
}

/* ---- the file -------------------------------------------------------------------- */

static void pad(FILE *file, uint64_t *at, uint64_t to) {
  static const char zeros[IMAGE_ALIGN];
  fwrite(zeros, 1, (size_t)(to - *at), file);
  *at = to;
}

static uint64_t hash_parts(const writer *all, const image_head *head) {
  static const char zeros[IMAGE_ALIGN];
  uint64_t check = KEEL_HASH_SEED, at = sizeof *head;
  for (int i = 0; i < IMAGE_STREAMS; i++) {
    check = keel_hash(check, zeros, (size_t)(head->parts[i].offset - at));
    check = keel_hash(check, all->streams[i].data, all->streams[i].size);
    at = head->parts[i].offset + all->streams[i].size;
  }
  return keel_hash(check, zeros, (size_t)(head->data - at));
}

/* Data, up to where the next begins. */
static void write_bytes(const void *data, uint64_t size, FILE *file) {
  uint64_t at = size;
  if (size) fwrite(data, 1, size, file);
  pad(file, &at, (size + IMAGE_ALIGN - 1) & ~(uint64_t)(IMAGE_ALIGN - 1));
}

static void write_out(const writer *all, uint32_t device, FILE *file) {
  image_head head = {.magic = IMAGE_MAGIC,
                     .version = IMAGE_VERSION,
                     .needs = IMAGE_NEEDS,
                     .head_size = sizeof head,
                     .device = device};
  uint64_t at = sizeof head;
  for (int i = 0; i < IMAGE_STREAMS; i++) {
    at = (at + 7) & ~UINT64_C(7);
    head.parts[i] = (image_part){at, all->counts[i], sizes[i]};
    at += all->streams[i].size;
  }
  head.data = (at + IMAGE_ALIGN - 1) & ~(uint64_t)(IMAGE_ALIGN - 1);
  head.file_size = head.data + all->data_size;
  head.check = hash_parts(all, &head);
  fwrite(&head, sizeof head, 1, file);
  at = sizeof head;
  for (int i = 0; i < IMAGE_STREAMS; i++) {
    pad(file, &at, head.parts[i].offset);
    fwrite(all->streams[i].data ? all->streams[i].data : "", 1,
           all->streams[i].size, file);
    at += all->streams[i].size;
  }
  pad(file, &at, head.data);
  for (uint32_t i = 0; i < all->data_count; i++)
    write_bytes(all->data[i]->data, all->data[i]->type->bytes, file);
  for (uint32_t i = 0; i < all->program->forms.count; i++)
    write_bytes(all->program->forms.list[i].data,
                all->program->forms.list[i].size, file);
}

keel_status keel_image_write(const keel_program *program, FILE *file) {
  writer *all = calloc(1, sizeof *all);
  if (!all) return keel_no_memory(sizeof *all);
  uint32_t main = 0, device = 0;
  all->program = program;
  keel_status status = put_function(all, program->main, &main);
  if (status == KD_OK) status = put_forms(all, &program->forms);
  if (status == KD_OK)
    status =
        string_of(all, program->device ? program->device->name : "", &device);
  if (status == KD_OK) write_out(all, device, file);
  for (uint32_t i = 0; i < all->data_count; i++)
    keel_tensor_release((keel_tensor *)(uintptr_t)all->data[i]);
  for (int i = 0; i < IMAGE_STREAMS; i++)
    free(all->streams[i].data);
  free(all->strings.slots);
  free(all->types.slots);
  free(all->tensors.slots);
  free(all->ops.slots);
  free(all->data);
  free(all);
  return status;
}
