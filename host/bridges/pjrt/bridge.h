/* bridge.h - the objects of the PJRT plugin, shared by its files. */
#ifndef KEEL_PJRT_BRIDGE_H
#define KEEL_PJRT_BRIDGE_H

#include <keel/keel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "abi.h"

/* Each slot's function, by its name in slots.def. */
#define SLOT(name) pjrt_error *pjrt_##name(name##_args *args);
#define NONE(name)
#include "slots.def"

/* ---- errors ---- */

struct pjrt_error {
  int code; /* a kd_status: PJRT's codes are Abseil's, and so are Keel's up to 16 */
  char text[];
};

/* An error with keel_message(); NULL for KD_OK. */
pjrt_error *pjrt_fail(keel_status status);
pjrt_error *pjrt_fail_text(keel_status status, const char *format, ...)
    KD_PRINTF(2, 3);

#define PJRT_TRY(call)                                               \
  do {                                                               \
    keel_status pjrt_try_status = (call);                            \
    if (pjrt_try_status != KD_OK) return pjrt_fail(pjrt_try_status); \
  } while (0)

#define PJRT_TEXT(args, string)               \
  do {                                        \
    (args)->text = (string);                  \
    (args)->text_size = strlen((args)->text); \
  } while (0)

/* Slots that give what `args->object` has: a value, a text, a list. */
#define PJRT_GIVES(slot, value)                \
  pjrt_error *pjrt_##slot(slot##_args *args) { \
    args->result = (value);                    \
    return NULL;                               \
  }
#define PJRT_GIVES_TEXT(slot, string)          \
  pjrt_error *pjrt_##slot(slot##_args *args) { \
    PJRT_TEXT(args, string);                   \
    return NULL;                               \
  }
#define PJRT_GIVES_LIST(slot, items, number)   \
  pjrt_error *pjrt_##slot(slot##_args *args) { \
    args->list = (items);                      \
    args->count = (number);                    \
    return NULL;                               \
  }

/* ---- events ---- */

/* An event that is ready when the work has ended that makes the values, on a device, or has
 * failed as the first of them that did. NULL: no memory. */
pjrt_event *pjrt_event_of(keel_tensor *const *values, uint32_t count);

/* ---- clients ---- */

struct pjrt_description {
  int id;
  char kind[96], text[192]; /* "Keel cpu:0", and with the product */
  pjrt_named_value attributes[1];
  char name[64]; /* Keel's */
};

struct pjrt_memory {
  pjrt_device *device;
  char text[80];
};

struct pjrt_device {
  pjrt_client *client;
  keel_device *device;
  pjrt_description description;
  pjrt_memory memory, *memories[1];
  pjrt_device *self[1]; /* lists of it alone */
};

struct pjrt_topology {
  pjrt_description **descriptions;
  uint32_t count;
};

struct pjrt_client {
  keel_context *context;
  pjrt_device *devices;
  pjrt_device **device_list;
  pjrt_memory **memory_list;
  pjrt_description **description_list;
  pjrt_topology topology;
  uint32_t count;
  char version[64];
};

/* ---- buffers ---- */

struct pjrt_buffer {
  pjrt_device *device;
  pthread_mutex_t lock; /* of the four below */
  keel_tensor *tensor;  /* NULL: deleted */
  keel_tensor *host;    /* or NULL: its copy in host memory, for an address */
  uint32_t outside;     /* users of its memory whom PJRT does not see */
  keel_tensor *kept;    /* for those, where it has been donated */
  int type;             /* PJRT's */
  size_t rank;
  int64_t dims[KD_MAX_RANK], order[KD_MAX_RANK]; /* minor to major */
};

/* A buffer of a value, which it takes over, of a type that is known. */
pjrt_error *pjrt_buffer_make(pjrt_device *device, KD_OWNED keel_tensor *tensor,
                             int type, size_t rank, const int64_t *dims,
                             pjrt_buffer **out_buffer);

/* Its value, retained; NULL if it has been deleted, on whichever thread. */
keel_tensor *pjrt_buffer_take(pjrt_buffer *buffer);

/* Donates its value: it is deleted, and the reference becomes the caller's, beside the one
 * that the caller has. False: `tensor` is not its value any more. */
bool pjrt_buffer_give(pjrt_buffer *buffer, keel_tensor *tensor);
/* The opposite, where the donation comes to nothing. */
void pjrt_buffer_put_back(pjrt_buffer *buffer, KD_OWNED keel_tensor *tensor);

kd_dtype pjrt_dtype(int type);
int pjrt_type(kd_dtype dtype); /* 0: PJRT has none */

/* ---- executables ---- */

#define PJRT_PROGRAM "StableHLO program" /* what messages call it */

struct pjrt_executable {
  atomic_uint refs;      /* PJRT's two views of it */
  pjrt_device **devices; /* on which it runs at once: a partition each */
  uint32_t device_count;
  keel_program *program;
  keel_plan **plans;   /* by device */
  keel_group *group;   /* of the devices, if they exchange values; or NULL */
  atomic_bool deleted; /* runs that have begun go on */
  /* of what callers see: behind these the program takes the handle of the group's member */
  uint32_t input_count, output_count;
  /* of the program; it has one, "keel.nothing", where the function has none */
  uint32_t made_count;
  bool brief;        /* runs at once, on the caller's thread */
  uint32_t *donated; /* inputs that callers donate */
  uint32_t donated_count;
  /* of outputs */
  int *types;
  size_t *ranks;
  int64_t *dims; /* of all */
  const char **kinds;
  size_t *kind_sizes;
  char fingerprint[32];
  char *assignment; /* a DeviceAssignmentProto */
  size_t assignment_size;
  char *text; /* of a program of several devices: its ports, as MLIR */
};

#define PJRT_DEVICES_MOST 1024

/* What JAX wants of a program, from its CompileOptionsProto. */
typedef struct pjrt_choice {
  int64_t replicas, partitions;
  int64_t ids[PJRT_DEVICES_MOST]; /* of the devices, by partition */
  uint32_t id_count;
} pjrt_choice;

/* A program for devices, from bytes of any form that Keel loads. */
pjrt_error *pjrt_executable_make(pjrt_device *const *devices, uint32_t count,
                                 const char *bytes, size_t size,
                                 pjrt_executable **out_made);

/* The devices that compile options name: room for PJRT_DEVICES_MOST. */
pjrt_error *pjrt_choose(const pjrt_client *client, const char *options,
                        size_t size, pjrt_device **devices,
                        uint32_t *out_count);

/* MLIR's text of a program's ports, with how each is split among the devices; what is between
 * them is left out. NULL: no memory. */
char *pjrt_program_text(const pjrt_executable *made);

/* False: the bytes are no such message. */
bool pjrt_read_options(const char *bytes, size_t size, pjrt_choice *out);

#endif /* KEEL_PJRT_BRIDGE_H */
