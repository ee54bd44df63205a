/* function.h - the inside of programs: functions of nodes and values.
 *
 * A nested function (a branch, a loop's body) has no direct access to outer values:
 * captured values are its last inputs, and the calling node passes them as its own last
 * inputs. */
#ifndef KEEL_FUNCTION_H
#define KEEL_FUNCTION_H

#include <keel/program.h>

#include "memory/mapping.h"
#include "ops/node.h"
#include "program/annotations.h"
#include "program/forms.h"

typedef struct keel_function keel_function;

typedef struct keel_value_info {
  const char *name;
  const keel_type *type; /* NULL: not known */
  /* what compilers are shown of it where that is not known: element type and rank */
  const keel_type *open;
  keel_tensor *constant; /* retained; NULL: no constant */
  /* the constant in a device's memory, retained, or NULL */
  keel_tensor *placed;
  uint32_t producer; /* node, or KEEL_ABSENT */
} keel_value_info;

typedef struct keel_node {
  keel_opdef *op; /* retained */
  const char *name;
  uint32_t *inputs, *outputs; /* values, or KEEL_ABSENT */
  uint32_t input_count, output_count;
  /* where it must run; NULL: on the plan's device */
  keel_device *device;
  bool ruled;                 /* set by a rule */
  uint32_t group;             /* nodes of one go to one device; 0: of none */
  uint32_t output_layout;     /* see keel_call_site */
  struct keel_region *region; /* of keel::Region: the region; retained */
  const keel_type *part;      /* of keel::Part: its output's type */
  bool dead;
} keel_node;

struct keel_function {
  keel_arena *arena; /* the program's, or the plan's */
  keel_context *context;
  const char *name;
  keel_value_info *values;
  uint32_t value_count, value_capacity;
  keel_node *nodes;
  uint32_t node_count, node_capacity;
  uint32_t *inputs, *outputs;
  keel_port *input_ports, *output_ports; /* as declared */
  uint32_t input_count, output_count, input_capacity, output_capacity;
  uint32_t capture_count; /* of the inputs, the last ones */
  /* of a stretch (passes/outline.c): the device of all its kernels, and by input, in which of
   * its layouts it comes in */
  keel_device *recorded_on;
  uint32_t *input_layouts;
  uint64_t folded_bytes,
      folded_steps; /* by passes so far, of all functions: in the list's first */
  keel_function *next; /* all of one program or plan */
};

struct keel_program {
  /* 0: only weak references are left; all but the struct is freed */
  atomic_uint refs;
  atomic_uint weak_refs; /* plus one while there are strong references */
  keel_context *context;
  keel_device *device;   /* the device that it was compiled for, or NULL */
  keel_mapping *mapping; /* of its file, or NULL */
  keel_arena arena;
  keel_function *main;
  keel_function *functions; /* all, by `next` */
  keel_forms forms;         /* of regions that were compiled ahead */
  /* of an ONNX file, in the arena: */
  keel_annotations annotations;
  const char *path;
  keel_port
      *initializers; /* inputs with an initial value that may be replaced */
  uint32_t initializer_count, initializer_capacity;
  /* The program of the mapped file whose inputs of these names have no initial value. */
  keel_status (*override)(const keel_program *program, const char *const *names,
                          uint32_t count, keel_program **out_program);
};

keel_status keel_program_create(keel_context *context,
                                keel_program **out_program);

/* Takes a weak reference to a program that the caller holds. It does not keep the program
 * alive. */
void keel_program_weak_retain(keel_program *program);
void keel_program_weak_release(keel_program *program);
/* Turns a weak reference into a strong one; false if the program is gone. */
bool keel_program_lock(keel_program *program);

/* An empty function in an arena, linked into *list. */
keel_status keel_function_create(keel_context *context, keel_arena *arena,
                                 keel_function **list, const char *name,
                                 keel_function **out_function);

/* Releases the references that the functions of a list hold; the arena frees the rest. */
void keel_functions_release(keel_function *list);

/* All return KEEL_ABSENT, or a status, if memory runs out. */
uint32_t keel_function_value(keel_function *function, const char *name);
uint32_t keel_function_constant(keel_function *function, const char *name,
                                keel_tensor *tensor);
keel_status keel_function_input(keel_function *function, uint32_t value,
                                const keel_port *port);
keel_status keel_function_output(keel_function *function, uint32_t value,
                                 const keel_port *port);

/* Input or output `index` as declared. Returns KD_OK, KD_OUT_OF_RANGE. */
keel_status keel_function_port(const keel_function *function, bool output,
                               uint32_t index, keel_port *out_port);

/* Copies a port into an arena. Its name: the port's, or `name`. */
keel_status keel_port_copy(keel_arena *arena, const keel_port *port,
                           const char *name, keel_port *out_port);

/* The type that a port declares; NULL if it is not fully declared. */
const keel_type *keel_port_type(const keel_port *port);
/* Whether it takes tensors only. */
static inline bool keel_port_is_tensor(const keel_port *port) {
  return !(port->flags & ~KEEL_PORT_DONATED);
}

/* Whether input types that are unknown now will be known at a run. */
bool keel_function_is_open(const keel_function *function);

/* Adds a node. Takes over the reference to `op`, even on failure. */
keel_status keel_function_node(keel_function *function, keel_opdef *op,
                               const char *name, const uint32_t *inputs,
                               uint32_t input_count, const uint32_t *outputs,
                               uint32_t output_count, keel_node **out_node);

/* A copy in another arena, nested functions included. */
keel_status keel_function_clone(const keel_function *from, keel_arena *arena,
                                keel_function **list,
                                keel_function **out_function);

/* Writes a function out in another, of the same program or plan.
 *
 * list     receives copies of the functions that its nodes run
 * inputs   a value of `to` for each input of `from`, captures included
 * outputs  receive the values of `to` that stand for the outputs of `from` */
keel_status keel_function_inline(keel_function *to, const keel_function *from,
                                 keel_function **list, const uint32_t *inputs,
                                 uint32_t *outputs);

/* Sorts nodes topologically, keeping the order of accesses to resources. Fails if there is
 * a cycle. */
keel_status keel_function_sort(keel_function *function);

/* Whether it gives random numbers: an op of that kind (KEEL_OP_RANDOM), or a Dropout that drops,
 * or may. */
bool keel_node_is_random(const keel_function *function, const keel_node *node);

/* Whether it, or a node nested in it, is an op with one of the flags (KEEL_OP_*). Nested nodes
 * count as random by keel_node_is_random. */
bool keel_node_has(const keel_node *node, uint32_t flags);

/* Whether it, or a function nested in it, reads or changes a resource. */
bool keel_node_has_effects(const keel_node *node);
bool keel_node_changes(const keel_node *node);

/* The readers of each value, and how many; computed by each pass that needs it. */
typedef struct keel_uses {
  uint32_t *counts; /* by value: reads by live nodes, and as outputs */
  uint32_t *reader; /* by value: its last reading node, or KEEL_ABSENT */
  uint32_t value_count;
} keel_uses;

keel_status keel_uses_count(const keel_function *function, keel_uses *out_uses);
void keel_uses_drop(keel_uses *uses);

/* Infers the types of one node's outputs, where those of its inputs are known. */
keel_status keel_function_infer(keel_function *function, const keel_node *node);

/* Infers the types of all values, as far as possible. */
keel_status keel_function_types(keel_function *function);

/* The types of the outputs of a call with inputs of these types, as far as they can be inferred
 * without it; a loop inside with unknown rounds has none.
 *
 * inputs   NULL entries are not known
 * outputs  receive the types, NULL where they are not known */
keel_status keel_function_results(const keel_function *function,
                                  const keel_type *const *inputs,
                                  const keel_type **outputs);

#endif /* KEEL_FUNCTION_H */
