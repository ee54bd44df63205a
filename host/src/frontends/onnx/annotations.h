/* annotations.h - reads a model's annotations for a split among devices. */
#ifndef KEEL_ONNX_ANNOTATIONS_H
#define KEEL_ONNX_ANNOTATIONS_H

#include "import.h"

typedef struct onnx_annotated {
  const onnx_model *model;
  const keel_function *function; /* that its graph has become */
  /* a value of it, or KEEL_ABSENT */
  uint32_t (*find)(const void *names, const char *name);
  const void *names;
} onnx_annotated;

/* Fills program->annotations. Errors of the file are kept there until a split, so that the model
 * runs without one. Returns KD_OK, KD_OUT_OF_MEMORY. */
keel_status keel_onnx_annotations(const onnx_annotated *from,
                                  keel_program *program);

#endif /* KEEL_ONNX_ANNOTATIONS_H */
