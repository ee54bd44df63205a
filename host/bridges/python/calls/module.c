/* module.c - the module, of which keel/_calls.py says what it is for. */
#include "calls.h"

#define INTERFACE \
  1 /* what keel/_calls.py must know: more when a call changes */

static PyObject *module_watched(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(keel_watch_wanted());
}

static PyObject *module_begin(PyObject *module, PyObject *cancel) {
  (void)module;
  void *token = PyLong_AsVoidPtr(cancel);
  if (!token && PyErr_Occurred()) return NULL;
  keel_watch_begin(token);
  Py_RETURN_NONE;
}

static PyObject *module_end(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(keel_watch_end());
}

static PyObject *module_forked(PyObject *module, PyObject *main_thread) {
  (void)module;
  unsigned long ident = PyLong_AsUnsignedLong(main_thread);
  if (PyErr_Occurred()) return NULL;
  keel_watch_forked(ident);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"watched", module_watched, METH_NOARGS, NULL},
    {"begin", module_begin, METH_O, NULL},
    {"end", module_end, METH_NOARGS, NULL},
    {"forked", module_forked, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "keel._calls_c",
                                        NULL,
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

static bool add_type(PyObject *module, const char *name, PyType_Spec *spec,
                     PyTypeObject **out_type) {
  PyObject *type = PyType_FromSpec(spec);
  if (!type) return false;
  if (out_type) {
    Py_INCREF(OBJECT(type));
    *out_type = (PyTypeObject *)type;
  }
  int status = PyModule_AddObjectRef(module, name, type);
  Py_DECREF(OBJECT(type));
  return status == 0;
}

PyMODINIT_FUNC PyInit__calls_c(void);
PyMODINIT_FUNC PyInit__calls_c(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (add_type(module, "Core", &keel_core_spec, &keel_core_type) &&
      add_type(module, "Value", &keel_value_spec, &keel_value_type) &&
      add_type(module, "Call", &keel_call_spec, NULL) &&
      PyModule_AddIntConstant(module, "interface", INTERFACE) == 0)
    return module;
  Py_DECREF(module);
  return NULL;
}
