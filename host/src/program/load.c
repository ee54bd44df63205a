/* load.c - model files: tells their kind by their contents. */
#include "context.h"
#include "program/function.h"
#ifdef KEEL_WITH_ONNX
#include "frontends/onnx/onnx.h"
#endif

keel_status keel_program_load(keel_context *context, const char *path,
                              keel_program **out_program) {
  keel_file file = {0};
  *out_program = NULL;
  KEEL_TRY(keel_file_open(path, &file));
#ifdef KEEL_WITH_ONNX
  keel_status status =
      keel_onnx_load(context, path, file.data, file.size, out_program);
#else
  keel_status status =
      keel_fail(KD_UNIMPLEMENTED,
                "%s: this Keel was built without protobuf-c and reads no ONNX"
                " models",
                path);
  (void)context;
#endif
  keel_file_close(&file);
  return status;
}
