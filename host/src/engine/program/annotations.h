/* annotations.h - a model's annotations for a split among devices: ONNX's configurations (IR 11).
 *
 * They are hints about values of the main function, by their numbers there, which its clones keep. */
#ifndef KEEL_ANNOTATIONS_H
#define KEEL_ANNOTATIONS_H

#include "base/base.h"

/* A value that is sharded along an axis, by the annotation of one of its nodes. */
typedef struct keel_sharding {
  const char *node, *name; /* of the value; the node's for messages */
  uint32_t value;
  int64_t axis; /* counted from the end where it is below 0; not checked */
  int64_t dim;  /* the declared length of the axis; -1: none */
  bool plain;   /* equal parts along one axis, on all devices in their order */
} keel_sharding;

/* In which stage of a pipe a node is. */
typedef struct keel_staging {
  const char *node;
  uint32_t value; /* the first that the node makes */
  uint32_t stage; /* less than there are devices */
} keel_staging;

typedef struct keel_configuration {
  const char *name;
  int64_t devices; /* of any number, as the file has it */
  keel_sharding *shardings;
  keel_staging *stages;
  uint32_t sharding_count, sharding_capacity;
  uint32_t stage_count, stage_capacity;
  /* its error, for a message; NULL: none */
  const char *fault;
} keel_configuration;

typedef struct keel_annotations {
  keel_configuration *list;
  uint32_t count;
  uint32_t nodes;    /* that the model's graph has */
  const char *fault; /* of all of them; NULL: none */
} keel_annotations;

#endif /* KEEL_ANNOTATIONS_H */
