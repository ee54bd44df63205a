/* value.c - the bases of the package's contexts and tensors: counts, release, and memory that NumPy
 * and Keel share. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"

/* ---- contexts ------------------------------------------------------------------- */

static int core_init(core_object *core, PyObject *args, PyObject *named) {
  unsigned long long context = 0;
  static char *names[] = {"context", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, named, "K", names, &context))
    return -1;
  core->context = (keel_context *)(uintptr_t)context;
  core->users = 1;
  return 0;
}

static void core_dealloc(core_object *core) {
  PyTypeObject *type = Py_TYPE(OBJECT(core));
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(core);
  Py_DECREF(OBJECT(type));
}

static PyObject *core_hold(core_object *core, PyObject *unused) {
  (void)unused;
  core->users++;
  Py_RETURN_NONE;
}

void keel_core_drop(core_object *core) {
  if (--core->users) return;
  PyObject *done = PyObject_CallMethod((PyObject *)core, "_last", NULL);
  if (!done) PyErr_WriteUnraisable((PyObject *)core);
  Py_XDECREF(done);
}

static PyObject *core_drop(core_object *core, PyObject *unused) {
  (void)unused;
  keel_core_drop(core);
  Py_RETURN_NONE;
}

/* Takes the context out: the caller closes it. */
static PyObject *core_close(core_object *core, PyObject *unused) {
  (void)unused;
  keel_context *context = core->context;
  if (core->cancel) keel_cancel_release(core->cancel);
  core->cancel = NULL;
  core->context = NULL;
  return PyLong_FromVoidPtr(context);
}

static PyObject *core_context(core_object *core, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(core->context);
}

static PyObject *core_users(core_object *core, void *unused) {
  (void)unused;
  return PyLong_FromSsize_t(core->users);
}

static PyMethodDef core_methods[] = {
    {"hold", (PyCFunction)core_hold, METH_NOARGS, NULL},
    {"drop", (PyCFunction)core_drop, METH_NOARGS, NULL},
    {"taken", (PyCFunction)core_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef core_fields[] = {
    {"context", (getter)core_context, NULL, NULL, NULL},
    {"users", (getter)core_users, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot core_slots[] = {{Py_tp_new, (void *)PyType_GenericNew},
                                   {Py_tp_init, (void *)core_init},
                                   {Py_tp_dealloc, (void *)core_dealloc},
                                   {Py_tp_methods, core_methods},
                                   {Py_tp_getset, core_fields},
                                   {0, NULL}};

PyType_Spec keel_core_spec = {"keel._calls.Core", sizeof(core_object), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                              core_slots};

/* ---- tensors -------------------------------------------------------------------- */

static int value_init(value_object *value, PyObject *args, PyObject *named) {
  PyObject *core = NULL;
  unsigned long long tensor = 0;
  static char *names[] = {"core", "handle", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, named, "O!K", names, keel_core_type,
                                   &core, &tensor))
    return -1;
  if (value->core) {
    PyErr_SetString(PyExc_TypeError, "a tensor is made once");
    return -1;
  }
  Py_INCREF(OBJECT(core));
  value->core = (core_object *)core;
  value->core->users++;
  value->held = (keel_tensor *)(uintptr_t)tensor;
  return 0;
}

PyObject *keel_value_make(PyTypeObject *type, core_object *core,
                          keel_tensor *tensor) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  value_object *value = (value_object *)alloc(type, 0);
  if (!value) {
    keel_tensor_release(tensor);
    return NULL;
  }
  Py_INCREF(OBJECT(core));
  value->core = core;
  core->users++;
  value->held = tensor;
  return (PyObject *)value;
}

static void value_give_up(value_object *value) {
  value->held = NULL;
  keel_core_drop(value->core);
}

static void value_dealloc(value_object *value) {
  PyTypeObject *type = Py_TYPE(OBJECT(value));
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  PyObject *kind, *error, *trace; /* of an exception that is under way */
  PyErr_Fetch(&kind, &error, &trace);
  if (value->held) {
    keel_tensor *held = value->held;
    /* a device may still read an array */
    Py_BEGIN_ALLOW_THREADS keel_tensor_release(held);
    Py_END_ALLOW_THREADS value_give_up(value);
  }
  Py_XDECREF(OBJECT(value->core));
  release(value);
  Py_DECREF(OBJECT(type));
  PyErr_Restore(kind, error, trace);
}

static PyObject *value_handle(value_object *value, void *unused) {
  (void)unused;
  if (value->held) return PyLong_FromVoidPtr(value->held);
  PyErr_SetString(
      PyExc_ValueError,
      "the tensor was donated to a run, and can't be used any more");
  return NULL;
}

static PyObject *value_core(value_object *value, void *unused) {
  (void)unused;
  if (!value->core) {
    PyErr_SetString(PyExc_AttributeError, "the tensor was not made");
    return NULL;
  }
  Py_INCREF(OBJECT(value->core));
  return (PyObject *)value->core;
}

static PyObject *value_give_away(value_object *value, PyObject *unused) {
  (void)unused;
  if (value->held) value_give_up(value);
  Py_RETURN_NONE;
}

/* ---- memory that NumPy reads ------------------------------------------------------ */

/* Element types by the letters of Python's struct module. */
static const char *const letters[] = {
    [KD_BOOL] = "?", [KD_I8] = "b",   [KD_U8] = "B",  [KD_I16] = "h",
    [KD_U16] = "H",  [KD_I32] = "i",  [KD_U32] = "I", [KD_I64] = "q",
    [KD_U64] = "Q",  [KD_F16] = "e",  [KD_F32] = "f", [KD_F64] = "d",
    [KD_C64] = "Zf", [KD_C128] = "Zd"};

/* Shape and steps of a view, in one piece. */
static bool buffer_describe(keel_tensor *tensor, Py_ssize_t each,
                            Py_buffer *view) {
  const uint32_t rank = keel_tensor_rank(tensor);
  const int64_t *dims = keel_tensor_dims(tensor);
  Py_ssize_t *all = malloc(2 * (rank + (size_t)1) * sizeof *all);
  if (!all) return false;
  for (uint32_t i = 0; i < rank; i++)
    all[i] = (Py_ssize_t)dims[i];
  for (uint32_t i = rank; i-- > 0; each *= all[i])
    all[rank + i] = each;
  view->ndim = (int)rank;
  view->shape = all;
  view->strides = all + rank;
  view->internal = all;
  return true;
}

/* The tensor's address and element type, for which this waits: without the GIL. */
static const void *value_data(const value_object *value, uint32_t *out_dtype) {
  const void *data = NULL;
  keel_tensor *tensor = value->held ? keel_tensor_retain(value->held) : NULL;
  *out_dtype = KD_NONE;
  if (!tensor) return NULL;
  Py_BEGIN_ALLOW_THREADS *out_dtype = keel_tensor_dtype(tensor);
  data = keel_tensor_data(tensor);
  keel_tensor_release(tensor);
  Py_END_ALLOW_THREADS return data;
}

static int value_buffer(value_object *value, Py_buffer *view, int flags) {
  uint32_t dtype = KD_NONE;
  const void *data = value_data(value, &dtype);
  const char *letter =
      dtype < sizeof letters / sizeof *letters ? letters[dtype] : NULL;
  view->obj = NULL;
  if (!data || !letter || !value->held || flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError,
                    !letter ? "a tensor of elements that Python has no type for"
                    : data  ? "a tensor can't be written"
                            : "the host can't address the tensor's memory");
    return -1;
  }
  const Py_ssize_t each = (Py_ssize_t)kd_dtype_size((kd_dtype)dtype);
  if (!buffer_describe(value->held, each, view)) {
    PyErr_NoMemory();
    return -1;
  }
  Py_INCREF(OBJECT(value));
  view->obj = (PyObject *)value;
  view->buf = (void *)(uintptr_t)data;
  view->len = (Py_ssize_t)keel_tensor_size(value->held);
  view->itemsize = each;
  view->readonly = 1;
  view->format = (char *)(uintptr_t)letter;
  view->suboffsets = NULL;
  return 0;
}

static void value_buffer_end(value_object *value, Py_buffer *view) {
  (void)value;
  free(view->internal);
}

static PyMethodDef value_methods[] = {
    {"_give_away", (PyCFunction)value_give_away, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef value_fields[] = {
    {"_core", (getter)value_core, NULL, NULL, NULL},
    {"_handle", (getter)value_handle, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot value_slots[] = {
    {Py_tp_new, (void *)PyType_GenericNew},
    {Py_tp_init, (void *)value_init},
    {Py_tp_dealloc, (void *)value_dealloc},
    {Py_tp_methods, value_methods},
    {Py_tp_getset, value_fields},
    {Py_bf_getbuffer, (void *)value_buffer},
    {Py_bf_releasebuffer, (void *)value_buffer_end},
    {0, NULL}};

PyType_Spec keel_value_spec = {"keel._calls.Value", sizeof(value_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                               value_slots};

/* ---- memory of NumPy's ------------------------------------------------------------- */

/* NumPy's own arrays; a borrowed type, or NULL: nothing has imported NumPy. */
static PyObject *array_type(void) {
  static PyObject *found;
  PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
  if (found) return found;
  PyObject *numpy = PyDict_GetItemString(modules, "numpy"); /* borrowed */
  if (numpy) found = PyObject_GetAttrString(numpy, "ndarray");
  PyErr_Clear();
  return found;
}

/* KD_NONE: no type of Keel's, or in another order of bytes. */
static kd_dtype buffer_dtype(const Py_buffer *view) {
  const char *format = view->format;
  if (!format) return KD_NONE;
  for (uint32_t i = 0; i < sizeof letters / sizeof *letters; i++)
    if (letters[i] && !strcmp(letters[i], format)) return (kd_dtype)i;
  /* C's long */
  if (!strcmp(format, "l")) return view->itemsize == 8 ? KD_I64 : KD_I32;
  if (!strcmp(format, "L")) return view->itemsize == 8 ? KD_U64 : KD_U32;
  return KD_NONE;
}

/* By any thread: the last one that uses the memory. */
static void array_done(void *context) {
  Py_buffer *view = context;
  if (!Py_IsInitialized()) return; /* the array is gone with the interpreter */
  PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(view);
  PyGILState_Release(state);
  free(view);
}

bool keel_value_of_array(keel_context *context, PyObject *array,
                         keel_tensor **out) {
  int64_t dims[KD_MAX_RANK];
  if ((PyObject *)Py_TYPE(array) != array_type()) return false;
  Py_buffer *view = malloc(sizeof *view);
  if (!view) return false;
  if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
    PyErr_Clear();
    free(view);
    return false;
  }
  const kd_dtype dtype = buffer_dtype(view);
  bool takes = dtype != KD_NONE && view->ndim <= (int)KD_MAX_RANK;
  for (int i = 0; takes && i < view->ndim; i++)
    dims[i] = view->shape[i];
  if (takes && keel_tensor_wrap(context, dtype, (uint32_t)view->ndim, dims,
                                view->buf, array_done, view, out) == KD_OK)
    return true;
  PyBuffer_Release(view);
  free(view);
  return false;
}
