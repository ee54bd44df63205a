/* load.c - model files: read by what they hold, written in Keel's own forms. */
#include "frontends/frontends.h"
#include "frontends/mlir/mlir.h"
#include "program/image.h"
#include "trace/trace.h"

static const keel_frontend image = {keel_image_is, keel_image_read};

static const keel_frontend *const frontends[] = {
    &image,
#define FRONTEND(name) &keel_frontend_##name,
#include "frontends/frontends.def"
};

/* The file is closed afterwards. */
static keel_status frontends_load_load(keel_context *context, const char *path,
                                       keel_file *file,
                                       keel_program **out_program) {
  for (size_t i = 0; i < KEEL_COUNT_OF(frontends); i++) {
    if (!frontends[i]->is(file->data, file->size)) continue;
    keel_status status = frontends[i]->load(context, path, file, out_program);
    keel_file_close(file);
    return status;
  }
  keel_file_close(file);
  return keel_fail(KD_UNIMPLEMENTED,
                   "%s: is not a Keel program, and this Keel was built without"
                   " protobuf-c, which reading ONNX models needs",
                   path);
}

keel_status keel_program_load(keel_context *context, const char *path,
                              keel_program **out_program) {
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_file file = {0};
  *out_program = NULL;
  keel_status status = keel_file_open(path, &file);
  if (status == KD_OK)
    status = frontends_load_load(context, path, &file, out_program);
  if (began) keel_trace_span("load", NULL, path, began);
  return status;
}

keel_status keel_program_load_memory(keel_context *context, const char *path,
                                     const void *data, uint64_t size,
                                     keel_program **out_program) {
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_file file = {0};
  *out_program = NULL;
  keel_status status = keel_file_copy(path, data, size, &file);
  if (status == KD_OK)
    status = frontends_load_load(context, path, &file, out_program);
  if (began) keel_trace_span("load", NULL, path, began);
  return status;
}

/* ---- initial values ------------------------------------------------------- */

uint32_t keel_program_initializer_count(const keel_program *program) {
  return program->initializer_count;
}

keel_status keel_program_initializer(const keel_program *program,
                                     uint32_t index, keel_port *out_port) {
  if (index >= program->initializer_count)
    return keel_fail(KD_OUT_OF_RANGE, "the program has %u initializers, not %u",
                     (unsigned)program->initializer_count, (unsigned)index + 1);
  *out_port = program->initializers[index];
  return KD_OK;
}

static bool has_initializer(const keel_program *program, const char *name) {
  for (uint32_t i = 0; i < program->initializer_count; i++)
    if (!strcmp(program->initializers[i].name, name)) return true;
  return false;
}

static keel_status no_initializer(const keel_program *program,
                                  const char *name) {
  keel_text names = {0};
  for (uint32_t i = 0; i < program->initializer_count; i++)
    keel_text_add(&names, "%s%s",
                  i ? ", " : "; there are: ", program->initializers[i].name);
  keel_status status = keel_fail(
      KD_NOT_FOUND, "the program has no initializer \"%s\" to replace%.700s",
      name, keel_text_get(&names));
  keel_text_free(&names);
  return status;
}

keel_status keel_program_override(const keel_program *program,
                                  const char *const *names, uint32_t count,
                                  keel_program **out_program) {
  *out_program = NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!has_initializer(program, names[i]))
      return no_initializer(program, names[i]);
  if (!program->override)
    return keel_fail(KD_UNIMPLEMENTED,
                     "only a program of an ONNX model has initializers to"
                     " replace");
  return program->override(program, names, count, out_program);
}

/* ---- saving --------------------------------------------------------------- */

static keel_status write_image(void *program, FILE *file) {
  return keel_image_write(program, file);
}

static keel_status write_text(void *program, FILE *file) {
  const keel_program *self = program;
  return keel_mlir_write(self->main, self->device, 0, file);
}

/* The writer of the form that the flags name. */
static keel_status find_form(uint32_t flags,
                             keel_status (**out_form)(void *, FILE *)) {
  if (flags & ~KEEL_SAVE_TEXT)
    return keel_fail(KD_INVALID_ARGUMENT, "saving a program has no flags 0x%x",
                     (unsigned)flags);
  *out_form = flags & KEEL_SAVE_TEXT ? write_text : write_image;
  return KD_OK;
}

keel_status keel_program_save(const keel_program *program, const char *path,
                              uint32_t flags) {
  keel_status (*form)(void *, FILE *) = NULL;
  KEEL_TRY(find_form(flags, &form));
  return keel_file_replace(path, KEEL_FILE_MODE, form,
                           (void *)(uintptr_t)program);
}

keel_status keel_program_write(const keel_program *program, uint32_t flags,
                               keel_write_function write, void *write_context) {
  keel_status (*form)(void *, FILE *) = NULL;
  KEEL_TRY(find_form(flags, &form));
  return keel_file_pass(form, (void *)(uintptr_t)program, write, write_context);
}
