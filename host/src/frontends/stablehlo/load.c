/* load.c - StableHLO's portable artifacts as model files. */
#include "frontends/frontends.h"
#include "frontends/stablehlo/lower.h"

static keel_status stablehlo_load_load(keel_context *context, const char *path,
                                       keel_file *file,
                                       keel_program **out_program) {
  hlo *h = calloc(1, sizeof *h);
  if (!h) return keel_no_memory(sizeof *h);
  h->context = context;
  keel_status status = bytecode_read(path, file->data, file->size, &h->v.file);
  if (status == KD_OK) status = vhlo_types(&h->v);
  if (status == KD_OK) status = hlo_program(h, NULL, out_program);
  bytecode_free(&h->v.file);
  free(h);
  return status;
}

const keel_frontend keel_frontend_stablehlo = {bytecode_is,
                                               stablehlo_load_load};
