/* text.c - what JAX is shown of a program of several devices: the ports, and how each is split
 * among the devices, which it reads from MLIR's module. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

typedef struct writer {
  char *text;
  size_t size, capacity;
  bool failed;
} writer;

KD_PRINTF(2, 3)
static void text_put(writer *to, const char *format, ...) {
  va_list args;
  for (int pass = 0; pass < 2 && !to->failed; pass++) {
    size_t left = to->capacity - to->size;
    va_start(args, format);
    int size =
        vsnprintf(to->text ? to->text + to->size : NULL, left, format, args);
    va_end(args);
    if (size >= 0 && (size_t)size < left) {
      to->size += (size_t)size;
      return;
    }
    size_t capacity = 2 * to->capacity + (size_t)(size > 0 ? size : 0) + 256;
    char *larger = realloc(to->text, capacity);
    to->failed = !larger;
    if (larger) {
      to->text = larger;
      to->capacity = capacity;
    }
  }
}

static const char *text_element(kd_dtype dtype) {
  static const char *const names[KD_DTYPE_COUNT] = {
      [KD_BOOL] = "i1",          [KD_I8] = "i8",
      [KD_I16] = "i16",          [KD_I32] = "i32",
      [KD_I64] = "i64",          [KD_U8] = "ui8",
      [KD_U16] = "ui16",         [KD_U32] = "ui32",
      [KD_U64] = "ui64",         [KD_F16] = "f16",
      [KD_BF16] = "bf16",        [KD_F32] = "f32",
      [KD_F64] = "f64",          [KD_C64] = "complex<f32>",
      [KD_C128] = "complex<f64>"};
  return dtype < KD_DTYPE_COUNT && names[dtype] ? names[dtype] : "i8";
}

static void put_type(writer *to, const keel_port *port) {
  text_put(to, "tensor<");
  for (uint32_t i = 0; port->rank != KEEL_RANK_UNKNOWN && i < port->rank; i++)
    text_put(to, "%lldx", (long long)port->dims[i]);
  text_put(to, "%s>", text_element(port->dtype));
}

static keel_port port_of(const pjrt_executable *made, bool output,
                         uint32_t index) {
  keel_port port = {0};
  if (output)
    keel_program_output(made->program, index, &port);
  else
    keel_program_input(made->program, index, &port);
  return port;
}

static const char *text_split(const keel_port *port) {
  return port->sharding ? port->sharding : "{replicated}";
}

static void put_head(writer *to, const pjrt_executable *made) {
  text_put(to,
           "module @keel attributes {mhlo.num_partitions = %u : i32,"
           " mhlo.num_replicas = 1 : i32, mhlo.spmd_parameters_shardings = [",
           (unsigned)made->device_count);
  for (uint32_t i = 0; i < made->input_count; i++) {
    keel_port port = port_of(made, false, i);
    text_put(to, "%s\"%s\"", i ? ", " : "", text_split(&port));
  }
  bool many = made->output_count != 1;
  text_put(to, "], mhlo.spmd_output_sharding = \"%s", many ? "{" : "");
  for (uint32_t i = 0; i < made->output_count; i++) {
    keel_port port = port_of(made, true, i);
    text_put(to, "%s%s", i ? ", " : "", text_split(&port));
  }
  text_put(to, "%s\"} {\n", many ? "}" : "");
}

char *pjrt_program_text(const pjrt_executable *made) {
  writer to = {0};
  put_head(&to, made);
  text_put(&to, "func.func public @main(");
  for (uint32_t i = 0; i < made->input_count; i++) {
    keel_port port = port_of(made, false, i);
    text_put(&to, "%s%%arg%u: ", i ? ", " : "", (unsigned)i);
    put_type(&to, &port);
  }
  text_put(&to, ") -> (");
  for (uint32_t i = 0; i < made->output_count; i++) {
    keel_port port = port_of(made, true, i);
    text_put(&to, "%s", i ? ", " : "");
    put_type(&to, &port);
  }
  text_put(&to, ") {\n");
  for (uint32_t i = 0; i < made->output_count; i++) {
    keel_port port = port_of(made, true, i);
    text_put(&to, "%%%u = stablehlo.custom_call @keel() : () -> ", (unsigned)i);
    put_type(&to, &port);
    text_put(&to, "\n");
  }
  text_put(&to, "return");
  for (uint32_t i = 0; i < made->output_count; i++)
    text_put(&to, "%s%%%u", i ? ", " : " ", (unsigned)i);
  for (uint32_t i = 0; i < made->output_count; i++) {
    keel_port port = port_of(made, true, i);
    text_put(&to, "%s", i ? ", " : " : ");
    put_type(&to, &port);
  }
  text_put(&to, "\n}\n}\n");
  if (!to.failed) return to.text;
  free(to.text);
  return NULL;
}
