/* calls.h - the Python package's calls in C: what its files share. */
#ifndef KEEL_PYTHON_CALLS_H
#define KEEL_PYTHON_CALLS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* 3.11: the first with buffers in it */
#include <Python.h>

#include <kd/help.h>
#include <keel/keel.h>
#include <stdbool.h>

#define OBJECT(x) ((PyObject *)(x))

/* A context, and how many objects use it: itself, models, tensors. The last one to go calls its
 * method _last. */
typedef struct core_object {
  PyObject_HEAD keel_context *context; /* NULL: closed */
  keel_cancel *cancel; /* of the main thread's calls; NULL: none so far */
  Py_ssize_t users;
} core_object;

/* A tensor of libkeel. */
typedef struct value_object {
  PyObject_HEAD core_object *core;
  keel_tensor *held; /* NULL: a run has taken it over */
} value_object;

/* value.c */
extern PyType_Spec keel_core_spec, keel_value_spec;
void keel_core_drop(core_object *core);
/* A new object of a type that is derived from Value. It takes the tensor over, also on failure. */
PyObject *keel_value_make(PyTypeObject *type, core_object *core,
                          keel_tensor *tensor);

/* A tensor of an array's memory, if it is NumPy's own and packed. False: it is not, and no error is
 * set; `out` gets nothing. */
bool keel_value_of_array(keel_context *context, PyObject *array,
                         keel_tensor **out);

/* run.c */
extern PyType_Spec keel_call_spec;
/* as the module has made them */
extern PyTypeObject *keel_core_type, *keel_value_type;

/* watch.c: Ctrl-C while the main thread is in a call cancels it. */

/* Whether Ctrl-C raises KeyboardInterrupt in this thread: then the caller begins and ends a call.
 * With the GIL. */
bool keel_watch_wanted(void);
/* The token is requested if a signal comes before the end. Without the GIL, too. */
void keel_watch_begin(keel_cancel *cancel);
/* Whether it was requested. */
bool keel_watch_end(void);
/* At first, and in the child of a fork: the main thread, by PyThread_get_thread_ident. */
void keel_watch_forked(unsigned long main_thread);

#endif /* KEEL_PYTHON_CALLS_H */
