/* dialect.c - writing a pass as source. */
#include "families/dialect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
  const kd_host *host;
  char *data;
  size_t size, room;
  bool failed;
} text;

static void dialect_put(text *t, const char *format, ...) KD_PRINTF(2, 3);
static void dialect_put(text *t, const char *format, ...) {
  va_list args;
  for (int tries = 0; tries < 2 && !t->failed; tries++) {
    va_start(args, format);
    int size = vsnprintf(t->data ? t->data + t->size : NULL, t->room - t->size,
                         format, args);
    va_end(args);
    if (size >= 0 && t->data && t->size + (size_t)size < t->room) {
      t->size += (size_t)size;
      return;
    }
    size_t room = t->room * 2 + (size_t)(size > 0 ? size : 0) + 16384;
    char *more = t->host->allocate(t->host, room, 0);
    t->failed = !more || size < 0;
    if (more && t->data) memcpy(more, t->data, t->size);
    if (t->data) t->host->release(t->host, t->data);
    t->data = more;
    t->room = more ? room : 0;
  }
}

/* The compute type, and definitions of X(i), X_t and, for results, SET_X(i, v). */
static void put_buffer_macros(text *t, const fam_buffer *b) {
  const char *type = kd_dtype_name(b->dtype);
  dialect_put(t, "#define %s_t %s\n", b->name,
              kd_dtype_name(fam_compute(b->dtype)));
  dialect_put(t, "#define %s(i) LOAD_%s(%s_, (i))\n", b->name, type, b->name);
  if (b->write)
    dialect_put(t, "#define SET_%s(i, v) STORE_%s(%s_, (i), (v))\n", b->name,
                type, b->name);
}

/* Definitions for four neighbours: FOUR_X, X_FOUR(i, step) and X_OF(four, k); for results,
 * FOUR_X, SET_X_OF(four, k, v) and X_PUT(i, four). */
static void put_vec4_macros(text *t, const fam_buffer *b) {
  const char *type = kd_dtype_name(b->dtype), *name = b->name;
  if (b->write) {
    dialect_put(t, "#define FOUR_%s four_of<S_%s>\n", name, type);
    dialect_put(t, "#define SET_%s_OF(four, k, v) STORE_%s(four.at, k, (v))\n",
                name, type);
    dialect_put(t, "#define %s_PUT(i, four) put_four(%s_ + (i), four)\n", name,
                name);
  } else {
    dialect_put(t, "#define FOUR_%s four_taken<S_%s, sizeof(S_%s)>\n", name,
                type, type);
    dialect_put(t, "#define %s_FOUR(i, step) take_four(%s_ + (i), (step))\n",
                name, name);
    dialect_put(t, "#define %s_OF(four, k) LOAD_%s(four, k)\n", name, type);
  }
}

char *fam_opencl(const kd_host *host, const fam_dialect *dialect,
                 const fam_pass *pass) {
  text t = {.host = host};
  const char *kernel = fam_text(pass->kernel);
  if (!kernel) return NULL;
  if (dialect->float64) dialect_put(&t, "#define HAS_F64\n");
  dialect_put(&t, "#define GROUP %u\n%s%s%s", pass->group, fam_text("opencl"),
              fam_text("c"), fam_text("common"));
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    put_buffer_macros(&t, &pass->buffers[i]);
  dialect_put(&t, "%s%s", pass->head, kernel);
  dialect_put(&t, "typedef struct { int v[%u]; } family_params;\n",
              pass->param_count ? pass->param_count : 1);
  dialect_put(&t,
              "__attribute__((reqd_work_group_size(%u, 1, 1)))\n"
              "__kernel void family(",
              pass->group);
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *b = &pass->buffers[i];
    dialect_put(&t, "__global %suchar *%s_b, ulong %s_o, ",
                b->write ? "" : "const ", b->name, b->name);
  }
  dialect_put(&t, "family_params params) {\n");
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *b = &pass->buffers[i];
    dialect_put(
        &t, "  __global %sS_%s *%s_ = (__global %sS_%s *)(%s_b + %s_o);\n",
        b->write ? "" : "const ", kd_dtype_name(b->dtype), b->name,
        b->write ? "" : "const ", kd_dtype_name(b->dtype), b->name, b->name);
  }
  for (uint32_t i = 0; i < pass->local_count; i++)
    dialect_put(&t, "  __local %s %s[%u];\n",
                kd_dtype_name(pass->locals[i].dtype), pass->locals[i].name,
                pass->locals[i].count);
  dialect_put(&t, "#define FAMILY_BODY\n%s}\n", kernel);
  if (t.failed && t.data) host->release(host, t.data);
  return t.failed ? NULL : t.data;
}

/* ---- CUDA C++ ------------------------------------------------------------------ */

char *fam_cuda(const kd_host *host, const fam_dialect *dialect,
               const fam_pass *pass) {
  text t = {.host = host};
  const char *kernel = fam_text(pass->kernel);
  (void)dialect; /* every device has all types */
  if (!kernel) return NULL;
  dialect_put(&t, "#define GROUP %u\n%s%s%s", pass->group, fam_text("cuda"),
              fam_text("c"), fam_text("common"));
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    put_buffer_macros(&t, &pass->buffers[i]);
    if (pass->vec4) put_vec4_macros(&t, &pass->buffers[i]);
  }
  dialect_put(&t, "%s%s", pass->head, kernel);
  dialect_put(&t, "struct family_params { int v[%u]; };\n",
              pass->param_count ? pass->param_count : 1);
  dialect_put(
      &t, "extern \"C\" __global__ void __launch_bounds__(%u) family(\n    ",
      pass->group);
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *b = &pass->buffers[i];
    dialect_put(&t, "%sS_%s *%s_, ", b->write ? "" : "const ",
                kd_dtype_name(b->dtype), b->name);
  }
  dialect_put(&t, "const IN_PLACE family_params params) {\n");
  for (uint32_t i = 0; i < pass->local_count; i++)
    dialect_put(&t, "  __shared__ %s %s[%u];\n",
                kd_dtype_name(pass->locals[i].dtype), pass->locals[i].name,
                pass->locals[i].count);
  dialect_put(&t, "#define FAMILY_BODY\n%s}\n", kernel);
  if (t.failed && t.data) host->release(host, t.data);
  return t.failed ? NULL : t.data;
}

/* ---- GLSL --------------------------------------------------------------------- */

static bool uses(const fam_pass *pass, kd_dtype dtype) {
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    if (pass->buffers[i].dtype == dtype) return true;
  return strstr(pass->head, kd_dtype_name(dtype)) != NULL;
}

/* Reads parameters before anything can keep an item from it. */
static void put_params(text *t, const fam_dialect *dialect,
                       const fam_pass *pass) {
  if (dialect->eager)
    dialect_put(t, "int params_[%u];\n",
                pass->param_count ? pass->param_count : 1);
  for (uint32_t i = 0; i < pass->param_count; i++) {
    if (pass->single[i / 32] >> i % 32 & 1)
      dialect_put(t, "int param_%u = family.params.v[%u];\n", i, i);
    else if (dialect->eager)
      dialect_put(t, "params_[%u] = family.params.v[%u];\n", i, i);
  }
}

char *fam_glsl(const kd_host *host, const fam_dialect *dialect,
               const fam_pass *pass) {
  text t = {.host = host};
  const char *kernel = fam_text(pass->kernel);
  if (!kernel) return NULL;
  dialect_put(&t, "#version 460\n");
  if (uses(pass, KD_F64)) dialect_put(&t, "#define HAS_F64\n");
  if (dialect->keeps_nan) dialect_put(&t, "#define KEEPS_NAN\n");
  if (dialect->eager) dialect_put(&t, "#define EAGER\n");
  if (pass->trades) dialect_put(&t, "#define TRADES\n");
  dialect_put(&t, "#define GROUP %u\n%s%s%s", pass->group, fam_text("vulkan"),
              fam_text("common"), fam_text("math"));
  dialect_put(&t,
              "layout(local_size_x = GROUP) in;\n"
              "layout(buffer_reference, scalar, buffer_reference_align = 4)"
              " readonly buffer family_params { int v[]; };\n");
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *b = &pass->buffers[i];
    dialect_put(&t,
                "layout(buffer_reference, scalar, buffer_reference_align = %u)"
                " %sbuffer family_%s { S_%s v[]; };\n",
                (unsigned)(b->dtype == KD_C128 ? 8 : kd_dtype_size(b->dtype)),
                b->write ? "" : "readonly ", b->name, kd_dtype_name(b->dtype));
  }
  dialect_put(&t,
              "layout(push_constant, scalar) uniform family_block {\n"
              "  family_params params;\n  uint first, unused;\n");
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    dialect_put(&t, "  family_%s at_%s;\n", pass->buffers[i].name,
                pass->buffers[i].name);
  dialect_put(&t, "} family;\n");
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    dialect_put(&t, "#define %s_ family.at_%s\n", pass->buffers[i].name,
                pass->buffers[i].name);
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    put_buffer_macros(&t, &pass->buffers[i]);
  dialect_put(&t, "%s%s", pass->head, kernel);
  for (uint32_t i = 0; i < pass->local_count; i++)
    dialect_put(&t, "shared %s %s[%u];\n", kd_dtype_name(pass->locals[i].dtype),
                pass->locals[i].name, pass->locals[i].count);
  dialect_put(&t, "void main() {\n");
  put_params(&t, dialect, pass);
  dialect_put(&t, "#define FAMILY_BODY\n%s}\n", kernel);
  if (t.failed && t.data) host->release(host, t.data);
  return t.failed ? NULL : t.data;
}
