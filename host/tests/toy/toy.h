/* toy.h - the tests' plugin, as a test sees it.
 *
 * There is one toy device (device.h). It is built as a plugin for each line of models.def, which
 * says how that one behaves, and for each line of malformed.def, which says what is wrong with it:
 *
 *   context = open_with(TOY("queue"), NULL, 1);
 *   toy_state *toy = toy_of(TOY("queue"));
 *   atomic_store(&toy->gate, 1);
 *
 * A test that needs another behaviour adds a line there. */
#ifndef KEEL_TESTS_TOY_H
#define KEEL_TESTS_TOY_H

#include <dlfcn.h>
#include <kd/kd.h>
#include <stdatomic.h>
#include <stddef.h>

/* The plugin's file. */
#define TOY(model) TEST_FOLDER "/" model ".so"

/* What a test may set, and what the plugin counts. Each plugin has its own. */
typedef struct toy_state {
  /* 1: closed. A Mul by 7 waits until it is open. */
  atomic_int gate;
  /* How many jobs a stream takes before it says KD_BUSY; 0: any, -1: none. Set from TOY_RING
   * when the plugin is opened. */
  atomic_int ring;
  atomic_int naps;    /* 1: each job of a thread waits a moment first */
  atomic_int rebinds; /* 1: recordings can be put to other memory */
  atomic_int fails;   /* the status of a Mul by 13; 0: KD_INTERNAL */
  atomic_int cost;    /* what an Add is said to take, nanoseconds; 0: unknown */
  atomic_int leaves;  /* 1: a PRelu does not take its constant slope */

  /* The compiler: what it claims, and what `compile` and `validate` answer. */
  void (*claim)(const kd_host *host, const kd_graph *graph, kd_claim take,
                void *context);
  kd_status compiles, judges;

  atomic_int pending;           /* callbacks that wait for their event */
  atomic_int refused;           /* KD_BUSY, how often */
  atomic_int launches, updates; /* of recordings */
  atomic_int copies, fills;     /* inside its memory */
  atomic_int copies_in;
  atomic_int created, kernels; /* of PRelu, all and now */
  atomic_int mapped;           /* buffers, now */
  atomic_int trims;
  atomic_int made, loaded, launched, live; /* regions */
  const void *_Atomic input; /* the address of the last kernel's first input */
} toy_state;

/* The table of a model, for a test that has the toy linked in; NULL: there is none.
 * The image has one toy: all calls must name the same model. */
const kd_plugin *toy_plugin(const kd_host *host, const char *model);

/* The state of a plugin that is open, for as long as it is; NULL: it is not open. */
static inline toy_state *toy_of(const char *path) {
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  toy_state *state = plugin ? dlsym(plugin, "toy") : NULL;
  if (plugin) dlclose(plugin);
  return state;
}

#endif /* KEEL_TESTS_TOY_H */
