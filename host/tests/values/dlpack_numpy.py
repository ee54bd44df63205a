# From NumPy into libkeel and back, without a copy: the judge of DLPack's structs.
# usage: dlpack_numpy.py LIBKEEL CPU_PLUGIN
import ctypes
import gc
import sys
import weakref

try:
    import numpy as np
except ImportError:
    print("no numpy here")
    sys.exit(77)
if not hasattr(np, "from_dlpack"):
    print("numpy", np.__version__, "has no DLPack")
    sys.exit(77)
VERSIONED = tuple(int(n) for n in np.__version__.split(".")[:2]) >= (2, 1)
MAY_COPY, COPY = 1, 2

keel = ctypes.CDLL(sys.argv[1])
keel.keel_message.restype = ctypes.c_char_p
keel.keel_tensor_data.restype = ctypes.c_void_p
keel.keel_dtype_name.restype = ctypes.c_char_p
keel.keel_close.restype = keel.keel_tensor_release.restype = None

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

# a capsule keeps the pointer to its name
NAMES = {False: (b"dltensor", b"used_dltensor"),
         True: (b"dltensor_versioned", b"used_dltensor_versioned")}


class Params(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("plugins", ctypes.POINTER(ctypes.c_char_p)),
                ("plugin_count", ctypes.c_uint32), ("workers", ctypes.c_int32)]


def check(status):
    if status:
        raise RuntimeError("%d: %s" % (status, keel.keel_message().decode()))


def open_context():
    context = ctypes.c_void_p()
    paths = (ctypes.c_char_p * 1)(sys.argv[2].encode())
    params = Params(ctypes.sizeof(Params), 1, paths, 1, -1)
    check(keel.keel_open(ctypes.byref(params), ctypes.byref(context)))
    return context


def from_numpy(context, array, versioned, flags=0):
    capsule = array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()
    name, used = NAMES[versioned]
    take = (keel.keel_tensor_from_dlpack if versioned
            else keel.keel_tensor_from_dlpack_legacy)
    tensor = ctypes.c_void_p()
    pointer = api.PyCapsule_GetPointer(capsule, name)
    check(take(context, ctypes.c_void_p(pointer), ctypes.c_uint32(flags),
               ctypes.byref(tensor)))
    api.PyCapsule_SetName(capsule, used)
    return tensor


class Lent:
    """What numpy.from_dlpack takes."""

    def __init__(self, tensor, versioned, flags):
        self.tensor, self.versioned, self.flags = tensor, versioned, flags

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **unused):
        lend = (keel.keel_tensor_to_dlpack if self.versioned
                else keel.keel_tensor_to_dlpack_legacy)
        managed = ctypes.c_void_p()
        check(lend(self.tensor, ctypes.c_uint32(self.flags),
                   ctypes.byref(managed)))
        return api.PyCapsule_New(managed, NAMES[self.versioned][0], None)


def to_numpy(tensor, versioned, flags=0):
    return np.from_dlpack(Lent(tensor, versioned, flags))


class Watched(np.ndarray):
    """An array whose end can be seen."""


def watched(dtype, shape):
    array = np.arange(1, 1 + int(np.prod(shape))).astype(dtype).reshape(shape)
    return array.view(Watched)


def round_trip(context, dtype, versioned):
    array = watched(dtype, (2, 3))
    values, address = np.array(array), array.ctypes.data
    end = weakref.ref(array)
    tensor = from_numpy(context, array, versioned)
    del array
    gc.collect()
    assert end() is not None, "the tensor does not hold the array"
    assert keel.keel_tensor_data(tensor) == address, "the way in is a copy"
    back = to_numpy(tensor, versioned)
    keel.keel_tensor_release(tensor)
    assert back.ctypes.data == address, "the way out is a copy"
    assert back.dtype == values.dtype and back.shape == (2, 3)
    assert np.array_equal(back, values)
    if versioned:
        assert not back.flags.writeable, "others read it"
    assert end() is not None, "the way out does not hold the tensor"
    del back
    gc.collect()
    assert end() is None, "nobody frees the array"


def strided(context, versioned):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in array.T, array[::-1], array[:, 1:3]:
        try:
            from_numpy(context, view, versioned)
            raise AssertionError("strided memory was shared")
        except RuntimeError as error:
            assert "KEEL_DLPACK_MAY_COPY" in str(error), error
        tensor = from_numpy(context, view, versioned, MAY_COPY)
        back = to_numpy(tensor, versioned)
        keel.keel_tensor_release(tensor)
        assert np.array_equal(back, view)


def copied(context):
    array = np.arange(4, dtype=np.int64)
    tensor = from_numpy(context, array, True)
    back = to_numpy(tensor, True, COPY)
    keel.keel_tensor_release(tensor)
    assert back.flags.writeable
    back[0] = 99
    assert array[0] == 0


def computed(context):
    array = np.array([-1, 2, -3, 4], dtype=np.float32)
    tensor = from_numpy(context, array, VERSIONED)
    inputs = (ctypes.c_void_p * 1)(tensor)
    outputs = (ctypes.c_void_p * 1)()
    check(keel.keel_call(context, b"Relu", None, 0, inputs, 1, outputs, 1))
    back = to_numpy(ctypes.c_void_p(outputs[0]), VERSIONED)
    keel.keel_tensor_release(tensor)
    keel.keel_tensor_release(ctypes.c_void_p(outputs[0]))
    assert list(back) == [0, 2, 0, 4]


def main():
    context = open_context()
    types = ("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32"
             " float64 complex64 complex128").split()
    if tuple(int(n) for n in np.__version__.split(".")[:2]) >= (1, 25):
        types.append("bool")
    for versioned in (False, True) if VERSIONED else (False,):
        for dtype in types:
            round_trip(context, dtype, versioned)
        strided(context, versioned)
    if VERSIONED:
        copied(context)
    computed(context)
    gc.collect()
    keel.keel_close(context)
    print("numpy", np.__version__, "with" if VERSIONED else "without", "versions")


main()
