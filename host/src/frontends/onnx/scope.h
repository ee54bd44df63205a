/* scope.h - the import of a model, and the names of its graphs. */
#ifndef KEEL_ONNX_SCOPE_H
#define KEEL_ONNX_SCOPE_H

#include "import.h"
#include "index.h"

typedef struct scope scope;

typedef struct importer {
  keel_context *context;
  keel_program *program;
  const char *path;
  const onnx_model *model;
  uint64_t nodes, most; /* added so far, functions written out; and at most */
  uint32_t depth;
  onnx_index functions;      /* of the model */
  onnx_index opsets, *inner; /* imports: the model's; by function, or empty */
  onnx_shared tensors;       /* of function bodies */
  /* inputs that are to keep no initial value */
  const char *const *replaced;
  uint32_t replaced_count;
} importer;

typedef struct entry {
  const char *name; /* NULL: free */
  /* KEEL_ABSENT: an input of a function that its call leaves out */
  uint32_t value;
  bool open; /* the output of a function that its body has yet to make */
} entry;

struct scope {
  importer *all;
  scope *around; /* of a nested graph */
  keel_function *function;
  entry *entries;           /* by hash of the name, open addressing */
  uint32_t count, capacity; /* capacity is a power of two */
  uint32_t *captured; /* values of `around`, in the order of the captures */
  uint32_t captured_count, captured_capacity;
  /* of a graph that a function's caller gives: where it is written, and its names are
   * looked up */
  scope *written;
  /* of a function that is written out: its call, for attribute references */
  const onnx_node *call;
  scope *caller;
  uint32_t body; /* its place among the model's, or KEEL_ABSENT */
};

/* Fails with a message that begins with the file. */
keel_status onnx_bad(const importer *all, keel_status status,
                     const char *format, ...) KD_PRINTF(3, 4);

/* The entry of a name, or where it would be; `room` is not 0. */
entry *onnx_scope_slot(const scope *scope, const char *name);
keel_status onnx_scope_add(scope *scope, const char *name, uint32_t value);

/* The output of a node: a new value, or the one that the call of this function has for
 * it. */
keel_status onnx_scope_make(scope *scope, const char *name);

/* Adds a value of that name. */
keel_status onnx_scope_new(scope *scope, const char *name, uint32_t *out_value);

/* The value of a name in this graph, or KEEL_ABSENT. */
uint32_t onnx_scope_find(const scope *scope, const char *name);

/* The value of a name here or around; KEEL_ABSENT where a call leaves it out. KD_NOT_FOUND
 * without a message. */
keel_status onnx_scope_resolve(scope *scope, const char *name,
                               uint32_t *out_value);

/* The handle of the rank that runs the program: an input that the first exchange adds. */
keel_status onnx_scope_member(scope *scope, uint32_t *out_value);
void onnx_scope_free(scope *scope);

/* ---- graphs and nodes ----------------------------------------------------------- */

/* Imports a graph as the scope's function. */
keel_status onnx_import_graph(const onnx_graph *graph, scope *inner);

/* Imports the nodes of a graph or of a function's body. */
keel_status onnx_import_nodes(scope *scope, onnx_node *const *nodes,
                              size_t count);

/* Begins a graph or a function within another, for which the caller counts `depth` down again;
 * fails where that is too deep. */
keel_status onnx_enter(importer *all, const char *name);

#endif /* KEEL_ONNX_SCOPE_H */
