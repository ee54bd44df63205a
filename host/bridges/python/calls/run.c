/* run.c - runs a model. */
#include <stdlib.h>

#include "calls.h"

PyTypeObject *keel_core_type, *keel_value_type;

/* A model's plan, the counts of its inputs and outputs, and the type of what is returned. */
typedef struct call_object {
  PyObject_HEAD core_object *core;
  PyTypeObject *type;
  keel_plan *plan; /* the model's, which owns this */
  uint32_t input_count, output_count;
} call_object;

static int call_init(call_object *call, PyObject *args, PyObject *named) {
  PyObject *core = NULL, *type = NULL;
  unsigned long long plan = 0;
  static char *names[] = {"core", "plan", "inputs", "outputs", "type", NULL};
  if (!PyArg_ParseTupleAndKeywords(
          args, named, "O!KIIO!", names, keel_core_type, &core, &plan,
          &call->input_count, &call->output_count, &PyType_Type, &type))
    return -1;
  if (call->core || !PyType_IsSubtype((PyTypeObject *)type, keel_value_type)) {
    PyErr_SetString(PyExc_TypeError,
                    "a call is made once, and gives objects that are derived"
                    " from Value");
    return -1;
  }
  Py_INCREF(OBJECT(core));
  Py_INCREF(OBJECT(type));
  call->core = (core_object *)core;
  call->type = (PyTypeObject *)type;
  call->plan = (keel_plan *)(uintptr_t)plan;
  return 0;
}

static void call_dealloc(call_object *call) {
  PyTypeObject *type = Py_TYPE(OBJECT(call));
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  Py_XDECREF(OBJECT(call->core));
  Py_XDECREF(OBJECT(call->type));
  release(call);
  Py_DECREF(OBJECT(type));
}

/* ---- a run ------------------------------------------------------------------------- */

/* The values of a run. */
typedef struct values {
  keel_tensor **inputs;
  bool *shared; /* whether an input's memory is the caller's */
  keel_tensor **outputs;
  keel_tensor *near[2 * 16]; /* where there are few */
  bool near_shared[16];
} values;

static bool values_begin(const call_object *call, values *all) {
  const size_t n = call->input_count, m = call->output_count;
  const bool few = n <= 16 && m <= 16;
  all->inputs = few ? all->near : calloc(n + m + 1, sizeof *all->inputs);
  all->shared = few ? all->near_shared : calloc(n + 1, sizeof *all->shared);
  all->outputs = all->inputs ? all->inputs + (few ? 16 : n) : NULL;
  for (size_t i = 0; all->inputs && i < n; i++)
    all->inputs[i] = NULL;
  return all->inputs && all->shared;
}

/* Without the GIL: a device may still read an array. */
static void values_release(const call_object *call, values *all) {
  Py_BEGIN_ALLOW_THREADS for (uint32_t i = 0;
                              all->inputs && i < call->input_count; i++)
      keel_tensor_release(all->inputs[i]);
  Py_END_ALLOW_THREADS
}

static void values_end(values *all) {
  if (all->inputs != all->near) free(all->inputs);
  if (all->shared != all->near_shared) free(all->shared);
}

/* Whether each is a tensor of this context, or an array whose memory can be shared. */
static bool values_take(const call_object *call, PyObject *given, values *all) {
  keel_context *context = call->core->context;
  if (!context || PyTuple_Size(given) != (Py_ssize_t)call->input_count)
    return false;
  for (uint32_t i = 0; i < call->input_count; i++) {
    PyObject *one = PyTuple_GetItem(given, i);
    all->shared[i] = !PyObject_TypeCheck(one, keel_value_type);
    if (all->shared[i]) {
      if (!keel_value_of_array(context, one, &all->inputs[i])) return false;
      continue;
    }
    const value_object *value = (value_object *)one;
    if (!value->held || value->core != call->core) return false;
    all->inputs[i] = keel_tensor_retain(value->held);
  }
  return true;
}

/* Whether a value lies in memory of the caller's. */
static bool value_is_shared(const call_object *call, const values *all,
                            keel_tensor *value) {
  const char *at = NULL;
  for (uint32_t i = 0; i < call->input_count; i++) {
    if (!all->shared[i]) continue;
    if (!at) at = keel_tensor_data(value);
    if (!at) return false;
    const char *from = keel_tensor_data(all->inputs[i]);
    if (from && at >= from && at < from + keel_tensor_size(all->inputs[i]))
      return true;
  }
  return false;
}

/* Copies outputs that share memory with the caller's arrays, which may change. */
static keel_status outputs_part(const call_object *call, values *all) {
  for (uint32_t i = 0; i < call->output_count; i++) {
    keel_tensor *value = all->outputs[i], *copy = NULL;
    if (!value_is_shared(call, all, value)) continue;
    keel_status status = keel_tensor_create(
        call->core->context, (kd_dtype)keel_tensor_dtype(value),
        keel_tensor_rank(value), keel_tensor_dims(value),
        keel_tensor_data(value), &copy);
    if (status != KD_OK) {
      for (uint32_t k = 0; k < call->output_count; k++)
        keel_tensor_release(all->outputs[k]);
      return status;
    }
    keel_tensor_release(value);
    all->outputs[i] = copy;
  }
  return KD_OK;
}

/* The token of the main thread's calls; NULL: this call is not watched. */
static keel_cancel *core_cancel(core_object *core) {
  if (!keel_watch_wanted()) return NULL;
  if (!core->cancel &&
      keel_cancel_create(core->context, &core->cancel) != KD_OK)
    core->cancel = NULL;
  return core->cancel;
}

/* Runs without the GIL. *out_raises: an exception is set, and nothing has run. */
static keel_status call_plan(const call_object *call, uint32_t flags,
                             uint64_t timeout, values *all, bool *out_raises) {
  core_object *core = call->core;
  keel_run_params params = {.struct_size = sizeof params,
                            .flags = flags,
                            .timeout = timeout,
                            .cancel = core_cancel(core)};
  keel_status status = KD_OK;
  if (params.cancel) keel_watch_begin(params.cancel);
  /* a signal that came just before */
  *out_raises = params.cancel && PyErr_CheckSignals() < 0;
  if (!*out_raises) {
    Py_BEGIN_ALLOW_THREADS status =
        keel_plan_run_with(call->plan, &params, all->inputs, call->input_count,
                           all->outputs, call->output_count);
    if (status == KD_OK) status = outputs_part(call, all);
    Py_END_ALLOW_THREADS
  }
  if (params.cancel && keel_watch_end()) {
    /* it stays requested: the next call gets another one */
    keel_cancel_release(core->cancel);
    core->cancel = NULL;
  }
  return status;
}

/* A list of the outputs, which it takes over. */
static PyObject *outputs_list(const call_object *call, const values *all) {
  PyObject *list = PyList_New((Py_ssize_t)call->output_count);
  for (uint32_t i = 0; i < call->output_count; i++) {
    PyObject *one = NULL;
    if (list)
      one = keel_value_make(call->type, call->core, all->outputs[i]);
    else
      keel_tensor_release(all->outputs[i]);
    if (one)
      PyList_SetItem(list, (Py_ssize_t)i, one);
    else
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *call_result(const call_object *call, uint32_t flags,
                             uint64_t timeout, values *all) {
  bool raises = false;
  keel_status status = call_plan(call, flags, timeout, all, &raises);
  if (raises) return NULL;
  return status == KD_OK ? outputs_list(call, all)
                         : Py_BuildValue("(iy)", (int)status, keel_message());
}

/* run(inputs, flags, timeout): a list of the outputs; a status and its message; or None, where an
 * input is neither a tensor of the context nor an array whose memory can be shared: nothing has run
 * then. */
static PyObject *call_run(call_object *call, PyObject *args) {
  PyObject *given = NULL, *result = NULL;
  unsigned flags = 0;
  unsigned long long timeout = 0;
  values all;
  if (!PyArg_ParseTuple(args, "O!IK", &PyTuple_Type, &given, &flags, &timeout))
    return NULL;
  if (!call->core) {
    PyErr_SetString(PyExc_TypeError, "the call was not made");
    return NULL;
  }
  if (!values_begin(call, &all)) {
    values_end(&all);
    return PyErr_NoMemory();
  }
  if (values_take(call, given, &all)) {
    result = call_result(call, flags, timeout, &all);
  } else {
    result = Py_None;
    Py_INCREF(result);
  }
  values_release(call, &all);
  values_end(&all);
  return result;
}

static PyMethodDef call_methods[] = {
    {"run", (PyCFunction)call_run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot call_slots[] = {{Py_tp_new, (void *)PyType_GenericNew},
                                   {Py_tp_init, (void *)call_init},
                                   {Py_tp_dealloc, (void *)call_dealloc},
                                   {Py_tp_methods, call_methods},
                                   {0, NULL}};

PyType_Spec keel_call_spec = {"keel._calls.Call", sizeof(call_object), 0,
                              Py_TPFLAGS_DEFAULT, call_slots};
