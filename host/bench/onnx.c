/* onnx.c - protobuf's wire format by hand: a field is its number and kind, then a
 * varint, or a length and bytes. */
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/save.h"

typedef struct bytes {
  char *data;
  size_t size, capacity;
} bytes;

static bytes graph;
static unsigned names;
static uint64_t state;

static void add(bytes *to, const void *data, size_t size) {
  if (to->size + size > to->capacity) {
    to->capacity = (to->size + size) * 2;
    to->data = realloc(to->data, to->capacity);
    if (!to->data) {
      fprintf(stderr, "bench: no memory for a model\n");
      exit(1);
    }
  }
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static void add_varint(bytes *to, uint64_t number) {
  for (; number >= 128; number >>= 7)
    add(to, (const char[]){(char)(number | 128)}, 1);
  add(to, (const char[]){(char)number}, 1);
}

static void add_int(bytes *to, unsigned field, int64_t number) {
  add_varint(to, field << 3);
  add_varint(to, (uint64_t)number);
}

static void add_data(bytes *to, unsigned field, const void *data, size_t size) {
  add_varint(to, field << 3 | 2);
  add_varint(to, size);
  add(to, data, size);
}

static void add_text(bytes *to, unsigned field, const char *text) {
  add_data(to, field, text, strlen(text));
}

/* A message in a message, which is then empty again. */
static void add_message(bytes *to, unsigned field, bytes *message) {
  add_data(to, field, message->data ? message->data : "", message->size);
  free(message->data);
  *message = (bytes){0};
}

static onnx_name new_name(void) {
  onnx_name name;
  snprintf(name.text, sizeof name.text, "v%u", names++);
  return name;
}

void onnx_begin(void) {
  graph = (bytes){0};
  names = 0;
  state = 1;
}

static void add_port(unsigned field, const char *name, uint32_t rank,
                     const int64_t *dims) {
  bytes shape = {0}, tensor = {0}, type = {0}, port = {0};
  for (uint32_t i = 0; i < rank; i++) {
    bytes dim = {0};
    if (dims[i] < 0)
      add_text(&dim, 2, "open");
    else
      add_int(&dim, 1, dims[i]);
    add_message(&shape, 1, &dim);
  }
  add_int(&tensor, 1, 1); /* FLOAT */
  if (dims) add_message(&tensor, 2, &shape);
  add_message(&type, 1, &tensor);
  add_text(&port, 1, name);
  add_message(&port, 2, &type);
  add_message(&graph, field, &port);
}

onnx_name onnx_input(uint32_t rank, const int64_t *dims) {
  onnx_name name = new_name();
  add_port(11, name.text, rank, dims);
  return name;
}

static onnx_name add_tensor(int type, uint32_t rank, const int64_t *dims,
                            const void *data, size_t size) {
  onnx_name name = new_name();
  bytes tensor = {0};
  for (uint32_t i = 0; i < rank; i++)
    add_int(&tensor, 1, dims[i]);
  add_int(&tensor, 2, type);
  add_text(&tensor, 8, name.text);
  add_data(&tensor, 9, data, size);
  add_message(&graph, 5, &tensor);
  return name;
}

/* Numerical Recipes' generator; only that numbers differ matters. */
static float next_random(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(state >> 40) * 0x1p-23f - 1;
}

onnx_name onnx_weight(uint32_t rank, const int64_t *dims, float mean,
                      float range) {
  size_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= (size_t)dims[i];
  float *data = malloc(count * sizeof *data);
  if (!data) exit(1);
  for (size_t i = 0; i < count; i++)
    data[i] = mean + range * next_random();
  onnx_name name = add_tensor(1, rank, dims, data, count * sizeof *data);
  free(data);
  return name;
}

onnx_name onnx_longs(uint32_t count, const int64_t *values) {
  const int64_t dim = count;
  return add_tensor(7, 1, &dim, values, count * sizeof *values);
}

static void add_attr(bytes *node, const char *text, size_t size) {
  const char *equals = memchr(text, '=', size);
  bytes attr = {0};
  int many = memchr(text, ',', size) != NULL;
  add_data(&attr, 1, text, (size_t)(equals - text));
  for (const char *at = equals + 1; at < text + size;) {
    char *end = NULL;
    add_int(&attr, many ? 8 : 3, strtoll(at, &end, 10));
    at = end + 1;
  }
  add_int(&attr, 20, many ? 7 : 2);
  add_message(node, 5, &attr);
}

onnx_name onnx_node(const char *op, const onnx_name *const *inputs,
                    const char *attrs) {
  onnx_name name = new_name();
  bytes node = {0};
  for (; *inputs; inputs++)
    add_text(&node, 1, (*inputs)->text);
  add_text(&node, 2, name.text);
  add_text(&node, 3, name.text);
  add_text(&node, 4, op);
  while (*attrs) {
    size_t size = strcspn(attrs, " ");
    add_attr(&node, attrs, size);
    attrs += size + strspn(attrs + size, " ");
  }
  add_message(&graph, 1, &node);
  return name;
}

void onnx_finish(onnx_name output, const char *path) {
  bytes model = {0}, opset = {0};
  add_port(12, output.text, 0, NULL);
  add_text(&graph, 2, "model");
  add_int(&opset, 2, 17);
  add_int(&model, 1, 8);
  add_message(&model, 8, &opset);
  add_message(&model, 7, &graph);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  if (good) fwrite(model.data, 1, model.size, save.file);
  if (!good || !keel_save_end(&save, true)) {
    perror(path);
    exit(1);
  }
  free(model.data);
}
