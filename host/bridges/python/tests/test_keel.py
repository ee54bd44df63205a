"""Tests of the Python package, beside NumPy and, where it is installed, PyTorch.

KEEL_LIBRARY: libkeel. Exit status 77 where NumPy or ONNX's test data is missing.
"""
import copy
import ctypes
import gc
import json
import os
import pickle
import shutil
import subprocess
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import weakref

CASES = "/usr/share/libonnx-testdata/data/node/"
try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)
if not os.path.isdir(CASES):
    print("ONNX's test data is not installed")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import keel
from keel import _native


def case(name):
    return CASES + name + "/model.onnx"


def address(tensor):
    return _native.lib.keel_tensor_data(tensor._handle)


# y = x * k + s, of f32[2]; k is 10, 100 and s 1, 2 at first. Of IR version 8.
INITIAL = (
    b'\x08\x08:\x9d\x01\n\x14\n\x01x\n\x01k\x12\x01m\x1a\x02it"\x03Mul:\x00\n\x14\n\x01m\n\x01s\x12\x01y\x1a\x02'
    b'it"\x03Add:\x00\x12\x05graph*\x11\x08\x02\x10\x01B\x01kJ\x08\x00\x00 A\x00\x00\xc8B*\x11\x08\x02\x10'
    b'\x01B\x01sJ\x08\x00\x00\x80?\x00\x00\x00@Z\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x02Z\x0f\n\x01k\x12\n\n\x08'
    b'\x08\x01\x12\x04\n\x02\x08\x02Z\x0f\n\x01s\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x02b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02'
    b'\x08\x02B\x04\n\x00\x10\x11')


# y = x + x, of any rows and columns
OPEN = b'''"keel.program"() ({
^bb0(%0: tensor<?x?xf32>):
%1 = "onnx.Add"(%0, %0) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
"keel.return"(%1) : (tensor<?x?xf32>) -> ()
}) : () -> ()
'''


class Runs(unittest.TestCase):
    def setUp(self):
        self.product = keel.load(case("test_matmul_3d"), device="cpu:0")
        rng = np.random.default_rng(1)
        self.a = rng.random((2, 3, 4), np.float32)
        self.b = rng.random((2, 4, 3), np.float32)

    def test_a_model_computes_what_numpy_does(self):
        (y,) = self.product.run(self.a, self.b)
        np.testing.assert_allclose(y.numpy(), self.a @ self.b, rtol=1e-6)
        self.assertEqual((y.shape, y.dtype), ((2, 3, 3), "f32"))

    def test_inputs_go_by_order_or_by_name(self):
        want = self.a @ self.b
        for outputs in (self.product.run(self.a, b=self.b), self.product.run(b=self.b, a=self.a)):
            np.testing.assert_allclose(outputs[0].numpy(), want, rtol=1e-6)

    def test_ports_are_told(self):
        self.assertEqual(self.product.inputs[0], keel.Port("a", "f32", (2, 3, 4)))
        self.assertIn("c: f32[2,3,3]", repr(self.product))

    def test_arrays_of_any_layout_and_lists_are_taken(self):
        want = self.a @ self.b
        readonly = self.a.copy()
        readonly.flags.writeable = False
        for a in (np.asfortranarray(self.a), self.a.astype(">f4"), readonly, self.a.tolist(),
                  np.repeat(self.a, 2, axis=2)[:, :, ::2]):
            np.testing.assert_allclose(self.product.run(a, self.b)[0].numpy(), want, rtol=1e-6)

    def test_other_shapes_than_declared_run(self):
        a, b = np.ones((5, 1, 2), np.float32), np.ones((5, 2, 1), np.float32)
        self.assertEqual(self.product.run(a, b)[0].numpy().tolist(), [[[2]]] * 5)

    def test_threads_run_one_model(self):
        wrong = []

        def work(k):
            for _ in range(20):
                y = self.product.run(self.a * k, self.b)[0].numpy()
                if not np.allclose(y, self.a @ self.b * k, rtol=1e-5):
                    wrong.append(k)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_an_output_is_not_the_callers_memory(self):
        same = keel.load(case("test_identity"))
        x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
        (y,) = same.run(x)
        x[:] = 7
        self.assertEqual(y.numpy().ravel().tolist(), [0, 1, 2, 3])

    def test_values_of_many_kinds_in_one_call(self):
        total = keel.load(case("test_sum_example"), device="cpu:0")  # of three
        kinds = (lambda x: x, keel._default().tensor, np.ndarray.tolist, lambda x: x[::-1][::-1],
                 lambda x: x.astype(">f4"), lambda x: np.frombuffer(x.tobytes(), np.float32))
        x = np.array([1, 2, 3], np.float32)
        for a in kinds:
            for b in kinds:
                for given in ((a(x), b(x), x), (x, a(x), b(x))):
                    self.assertEqual(total.run(*given)[0].numpy().tolist(), [3, 6, 9])
                named = dict(zip([port.name for port in total.inputs], (b(x), x, a(x))))
                self.assertEqual(total.run(**named)[0].numpy().tolist(), [3, 6, 9])

    def test_models_of_many_inputs_and_outputs(self):
        for count in (1, 15, 16, 17, 40):
            arguments = ", ".join(f"%{i}: tensor<?xf32>" for i in range(count))
            nodes = "\n".join(f'%{count + i} = "onnx.Neg"(%{i}) : (tensor<?xf32>) -> tensor<?xf32>'
                              for i in range(count))
            results = ", ".join(f"%{count + i}" for i in range(count))
            types = ", ".join(["tensor<?xf32>"] * count)
            model = keel.load(f'''"keel.program"() ({{
^bb0({arguments}):
{nodes}
"keel.return"({results}) : ({types}) -> ()
}}) : () -> ()
'''.encode(), device="cpu:0")
            for size in (3, 0, 100):
                given = [np.full(size, i, np.float32) for i in range(count)]
                for _ in range(20):
                    made = [bytearray(8 * count) for _ in range(50)]  # memory that a run might still read
                    outputs = model.run(*given)
                    made.append(bytearray(16 * count))
                    for i, output in enumerate(outputs):
                        self.assertEqual(output.numpy().tolist(), [-i] * size)

    def test_what_is_not_made_right_is_refused(self):
        if not keel._calls.fast:
            self.skipTest("calls are in Python")
        with self.assertRaises(TypeError):
            keel.Tensor([1, 2], 0)
        with self.assertRaises(AttributeError):
            keel.Tensor.__new__(keel.Tensor)._core
        with self.assertRaises(TypeError):
            keel._calls.fast.Call(1, 2, 3, 4, int)
        with self.assertRaises(TypeError):
            keel._calls.fast.Call.__new__(keel._calls.fast.Call).run((), 0, 0)

    def test_calls_are_in_c_where_they_were_built(self):
        wanted = os.environ.get("KEEL_TEST_CALLS_IN_C") == "1" and sys.version_info >= (3, 11)
        self.assertEqual(keel._calls.fast is not None, wanted)

    def test_a_tensor_has_weak_references_and_no_other_fields(self):
        y = self.product.run(self.a, self.b)[0]
        gone = weakref.ref(y)
        with self.assertRaises(AttributeError):
            y.name = "y"
        del y
        self.assertIsNone(gone())

    def test_a_model_in_memory_is_that_of_a_file(self):
        with open(case("test_identity"), "rb") as file:
            data = file.read()
        x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
        (y,) = keel.load(data, device="cpu:0").run(x)
        self.assertEqual(y.numpy().ravel().tolist(), [0, 1, 2, 3])
        with self.assertRaisesRegex(keel.Error, "the model's bytes: "):
            keel.load(data[:40])

    def test_initial_values_are_replaced_by_name(self):
        model = keel.load(INITIAL, device="cpu:0")
        x, k, s = (np.array(v, np.float32) for v in ([1, 2], [3, 4], [5, 6]))
        self.assertEqual([port.name for port in model.inputs], ["x"])
        self.assertEqual([port.name for port in model.initializers], ["k", "s"])
        for _ in range(3):
            for given, want in (({}, [11, 202]), ({"k": k}, [4, 10]), ({"s": s}, [15, 206]),
                                ({"k": k, "s": s}, [8, 14])):
                for inputs, more in (((x,), {}), ((), {"x": x})):
                    (y,) = model.run(*inputs, **more, **given)
                    self.assertEqual(y.numpy().tolist(), want)
        with self.assertRaisesRegex(TypeError, "no input 'q'.*that may be replaced .*k"):
            model.run(x, q=k)
        with self.assertRaisesRegex(TypeError, "input .*x.* is missing"):
            model.run(k=k)

    def test_sizes_are_prepared_before_a_run(self):
        model = keel.load(OPEN, device="cpu:0")
        (name,) = [port.name for port in model.inputs]
        for n in (1, 3, 7):
            model.prepare({name: (n, 2 * n)})
        for n in (7, 1, 3):
            x = np.arange(2 * n * n, dtype=np.float32).reshape(n, 2 * n)
            (y,) = model.run(x)
            self.assertTrue(np.array_equal(y.numpy(), 2 * x))
        counts = model.versions()
        self.assertEqual({key: counts[key] for key in ("made", "pinned", "hits", "misses")},
                         {"made": 3, "pinned": 3, "hits": 3, "misses": 0})
        with self.assertRaisesRegex(keel.Error, "is open: name the sizes"):
            model.prepare({name: (None, 4)})
        with self.assertRaisesRegex(TypeError, "no input 'q'"):
            model.prepare({"q": (2, 4)})

    def test_a_model_says_whether_its_rows_are_apart(self):
        self.assertIn("first dimension of input \"a\" is not open", self.product.batch_objection())
        self.assertEqual(keel.load(OPEN).batch_objection(), "")

    def test_a_model_says_what_it_holds(self):
        context = keel.open(threads=1)
        model = context.load(OPEN, device="cpu:0")
        for n in (1, 2, 3, 2, 1):
            model.run(np.ones((n, 4), np.float32))
        held = model.footprint()
        self.assertEqual(["host", "cpu:0"], list(held))
        self.assertEqual(set(held["cpu:0"]),
                         {"constants", "mapped", "taken", "recorded", "values"})
        self.assertEqual(held["cpu:0"]["mapped"], 0)
        context.trim()

    def test_a_sequence_goes_in_and_comes_out(self):
        insert = keel.load(case("test_sequence_insert_at_front"))
        self.assertEqual(insert.inputs[0].kind, "sequence")
        items = [np.array([k, k + 1], np.int64) for k in range(3)]
        (all_of,) = insert.run(items, np.array([9, 9], np.int64), np.array(0, np.int64))
        self.assertEqual([t.numpy().tolist() for t in all_of], [[9, 9], [0, 1], [1, 2], [2, 3]])
        self.assertEqual(len(all_of), 4)
        with self.assertRaises(IndexError):
            all_of[4]

    def test_items_of_a_sequence_are_not_the_callers_memory(self):
        insert = keel.load(case("test_sequence_insert_at_front"))
        item = np.array([1, 2], np.int64)
        (all_of,) = insert.run([item], np.array([9, 9], np.int64), np.array(0, np.int64))
        item[:] = 7
        self.assertEqual([t.numpy().tolist() for t in all_of], [[9, 9], [1, 2]])

    def test_an_optional_is_a_value_or_none(self):
        asks = keel.load(case("test_optional_has_element"))
        self.assertEqual(asks.inputs[0].kind, "optional")
        for value, want in ((np.ones(4, np.float32), True), (None, False)):
            self.assertEqual(asks.run(value)[0].numpy().tolist(), want)

    def test_a_device_that_copies(self):
        names = [d.name for d in keel.devices()]
        if "opencl:0" not in names:
            self.skipTest("no OpenCL device")
        (y,) = keel.load(case("test_matmul_3d"), device="opencl").run(self.a, self.b)
        np.testing.assert_allclose(np.from_dlpack(y), self.a @ self.b, rtol=1e-5)
        self.assertEqual(y.to("cpu:0").numpy().shape, (2, 3, 3))


class Memory(unittest.TestCase):
    def setUp(self):
        self.context = keel.open(threads=1)
        self.x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def test_packed_arrays_are_shared(self):
        tensor = self.context.tensor(self.x)
        self.assertEqual(address(tensor), self.x.ctypes.data)
        array = tensor.numpy()
        self.assertEqual(array.ctypes.data, self.x.ctypes.data)
        self.assertFalse(array.flags.writeable)
        del tensor
        gc.collect()
        self.assertEqual(array.tolist(), self.x.tolist())

    def test_an_array_lives_as_long_as_a_tensor_of_it(self):
        tensor = self.context.tensor(np.full(100000, 3, np.int32))
        gc.collect()
        self.assertTrue((tensor.numpy() == 3).all())

    def test_capsules_of_both_versions_and_nobody_to_take_them(self):
        tensor = self.context.tensor(self.x)
        for version, name in ((None, "dltensor"), ((1, 0), "dltensor_versioned")):
            capsule = tensor.__dlpack__(max_version=version)
            self.assertIn(f'"{name}"', repr(capsule))
            del capsule
        gc.collect()
        self.assertEqual(tensor.numpy().tolist(), self.x.tolist())

    def test_what_is_not_versioned_is_a_copy(self):
        tensor = self.context.tensor(self.x)
        copy = self.context.tensor(_Once(tensor.__dlpack__()))
        self.assertNotEqual(address(copy), self.x.ctypes.data)
        shared = self.context.tensor(_Once(tensor.__dlpack__(max_version=(1, 0))))
        self.assertEqual(address(shared), self.x.ctypes.data)

    def test_each_element_type(self):
        for kind in "f4 f8 f2 i1 i2 i4 i8 u1 u2 u4 u8 ? c8".split():
            array = np.array([[0, 1, 1]]).astype(kind)
            back = self.context.tensor(array).numpy()
            self.assertEqual((back.dtype, back.tolist()), (array.dtype, array.tolist()))
        self.assertEqual(self.context.tensor(np.zeros((0, 2), np.int8)).numpy().shape, (0, 2))
        self.assertEqual(self.context.tensor(2.5, "f64").numpy().tolist(), 2.5)

    def test_a_capsule_that_nobody_took_while_an_exception_is_raised(self):
        tensor = self.context.tensor(self.x)

        def fails():
            capsule = tensor.__dlpack__(max_version=(1, 0))
            raise KeyError(capsule)
        with self.assertRaises(KeyError):
            fails()
        gc.collect()
        self.assertEqual(tensor.numpy().tolist(), self.x.tolist())

    def test_an_array_outlives_all_else(self):
        context = keel.open(threads=1)
        array = np.from_dlpack(context.tensor(np.arange(5)))
        with self.assertRaisesRegex(ValueError, "arrays that share"):
            context.close()
        del context
        gc.collect()
        self.assertEqual(array.tolist(), [0, 1, 2, 3, 4])
        del array
        keel.open(threads=1)  # closes it
        self.assertEqual(keel._Core.waiting, [])

    def test_a_cycle_of_context_model_and_tensors(self):
        context = keel.open(threads=1)
        model = context.load(case("test_identity"))
        cycle = [context, model, model.run(np.zeros((1, 1, 2, 2), np.float32))]
        cycle.append(cycle)
        del context, model, cycle
        gc.collect()

    def test_copies_of_what_has_a_handle(self):
        context = keel.open(threads=1)
        model = context.load(case("test_identity"))
        x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
        kept = [context, model, model.run(x)[0], context.device("cpu")]
        for thing in kept:
            self.assertIs(copy.copy(thing), thing)
            for call in (copy.deepcopy, pickle.dumps, lambda one: copy.deepcopy([one]),
                         lambda one: pickle.dumps({"one": one})):
                with self.assertRaisesRegex(TypeError, "keel.*can't be (copied|pickled)"):
                    call(thing)
        copies = [copy.copy(thing) for thing in kept]
        del context, model, kept, thing
        gc.collect()
        self.assertEqual(copies[1].run(x)[0].numpy().tolist(), x.tolist())
        self.assertEqual(copies[2].numpy().tolist(), x.tolist())
        del copies
        gc.collect()

    def test_errors_are_pickled(self):
        with self.assertRaises(keel.Error) as found:
            keel.load("no_such.onnx")
        again = pickle.loads(pickle.dumps(found.exception))
        self.assertEqual((str(again), again.code, again.status),
                         (str(found.exception), found.exception.code, "NOT_FOUND"))

    def test_threads_that_close_a_context_and_use_it(self):
        for _ in range(20):
            context, seen = keel.open(threads=1, only=True), []

            def uses():
                try:
                    for _ in range(50):
                        context.tensor([1.0])
                        context.devices()
                except ValueError as error:
                    seen.append(str(error))

            def closes():
                while True:
                    try:
                        return context.close()
                    except ValueError as error:
                        self.assertIn("are left", str(error))
            threads = [threading.Thread(target=one) for one in (uses, closes, uses, closes)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(all("is closed" in text for text in seen), seen)

    def test_what_is_of_another_context(self):
        other = keel.open(threads=1)
        model = self.context.load(case("test_identity"))
        x = np.zeros((1, 1, 2, 2), np.float32)
        for call in (lambda: model.run(other.tensor(x)),
                     lambda: self.context.load(case("test_identity"), other.device("cpu")),
                     lambda: self.context.tensor(x).to(other.device("cpu"))):
            with self.assertRaisesRegex(ValueError, "of another context"):
                call()

    def test_what_is_no_tensor(self):
        with self.assertRaisesRegex(TypeError, "no element type"):
            self.context.tensor(np.array(["a"]))
        with self.assertRaisesRegex(TypeError, "given in host|no DLPack|taken"):
            once = _Once(self.context.tensor(self.x).__dlpack__())
            self.context.tensor(once)
            self.context.tensor(once)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_shares_both_ways(self):
        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        tensor = self.context.tensor(x)
        self.assertEqual(address(tensor), x.data_ptr())
        back = torch.from_dlpack(tensor)
        self.assertEqual(back.tolist(), x.tolist())
        half = self.context.tensor(torch.tensor([1.5, -2], dtype=torch.bfloat16))
        self.assertEqual(half.dtype, "bf16")
        self.assertEqual(torch.from_dlpack(half).tolist(), [1.5, -2])

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_a_model_computes_what_torch_does(self):
        x, w = torch.randn(1, 1, 5, 5), torch.randn(1, 1, 3, 3)
        model = keel.load(case("test_conv_with_autopad_same"))
        (y,) = model.run(x, w)
        want = torch.nn.functional.conv2d(x, w, stride=2, padding=1)
        torch.testing.assert_close(torch.from_dlpack(y), want, rtol=1e-5, atol=1e-5)


class _Once:
    """An array whose one capsule is made already."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


# a model whose loop is endless if its input is true
LOOP = r"""
import os, signal, sys, keel, numpy as np
text = b'''"keel.program"() ({
^bb0(%0: tensor<i1>):
%1 = "keel.none"() : () -> none
%2 = "onnx.Loop"(%1, %0, %0) ({
^bb0(%3: tensor<i64>, %4: tensor<i1>, %5: tensor<i1>):
"keel.return"(%4, %5) : (tensor<i1>, tensor<i1>) -> ()
}) {keel.graphs = [{attribute = "body", captures = 0 : i64}]} : (none, tensor<i1>, tensor<i1>) -> !keel.value
"keel.return"(%2) : (!keel.value) -> ()
}) : () -> ()
'''
model = keel.load(text, device="cpu:0")
yes, no = np.array(True), np.array(False)
model.run(no)
"""


class Interrupts(unittest.TestCase):
    """Ctrl-C during runs that would not end."""

    def after(self, script):
        """What a script prints that gets SIGINT while it is in the run after "begins"."""
        process = subprocess.Popen([sys.executable, "-c", LOOP + script], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.assertEqual(process.stdout.readline(), "begins\n")
            time.sleep(0.2)  # before the run it would be ended, too
            process.send_signal(signal.SIGINT)
            return process.communicate(timeout=60)
        finally:
            process.kill()

    def test_ctrl_c_ends_a_run(self):
        self.assertEqual(self.after("""
print("begins", flush=True)
try:
    model.run(yes)
except KeyboardInterrupt:
    print("ended")
print(model.run(no)[0].numpy())
"""), ("ended\nFalse\n", ""))

    def test_a_program_that_watches_signals_still_sees_them(self):
        self.assertEqual(self.after("""
reads, writes = os.pipe()
os.set_blocking(writes, False)
signal.set_wakeup_fd(writes)
print("begins", flush=True)
try:
    model.run(yes)
except KeyboardInterrupt:
    print(os.read(reads, 9)[0] == signal.SIGINT, signal.set_wakeup_fd(-1) == writes)
"""), ("True True\n", ""))

    def test_another_handler_lets_a_run_go_on(self):
        self.assertEqual(self.after("""
signal.signal(signal.SIGINT, lambda *_: print("handled"))
print("begins", flush=True)
try:
    model.run(yes, timeout=1)
except keel.Error as error:
    print(error.status)
"""), ("handled\nDEADLINE_EXCEEDED\n", ""))

    def test_a_run_in_a_forked_process_ends(self):
        self.assertEqual(self.after("""
child = os.fork()
if child:
    print("begins", flush=True)
    signal.signal(signal.SIGINT, lambda *_: os.kill(child, signal.SIGINT))
    print(os.waitpid(child, 0)[1])
else:
    model = keel.open(threads=1).load(text, device="cpu:0")
    try:
        model.run(yes)
    except KeyboardInterrupt:
        os._exit(0)
"""), ("0\n", ""))


class Failures(unittest.TestCase):
    def check(self, status, words, call, *arguments, **named):
        with self.assertRaises(keel.Error) as found:
            call(*arguments, **named)
        self.assertEqual(found.exception.status, status)
        self.assertRegex(str(found.exception), words)

    def test_errors_have_the_whole_text(self):
        model = keel.load(case("test_matmul_3d"))
        x = np.zeros((2, 3, 4), np.float32)
        self.check("NOT_FOUND", "no_such.onnx: No such file", keel.load, "no_such.onnx")
        self.check("NOT_FOUND", 'no device "tpu:0"; there are', keel.load,
                   case("test_matmul_3d"), "tpu:0")
        self.check("INVALID_ARGUMENT", 'input "b" is f64', model.run, x, x.astype("f8"))
        self.check("DEADLINE_EXCEEDED", ".", model.run, x, x.reshape(2, 4, 3), timeout=1e-9)
        self.check("DATA_LOSS", ".", keel.load, __file__)

    def test_inputs_that_are_not_the_models(self):
        model = keel.load(case("test_matmul_3d"))
        x = np.zeros((2, 3, 4), np.float32)
        for words, arguments, named in (
                ("takes 2 inputs, not 3", (x, x, x), {}), ("input b: .* is missing", (x,), {}),
                ("no input 'q'", (x, x), {"q": x}), ("'a' is given twice", (x,), {"a": x, "b": x})):
            with self.assertRaisesRegex(TypeError, words):
                model.run(*arguments, **named)

    def test_a_run_need_not_wait_for_its_device(self):
        model = keel.load(case("test_add"))
        a, b = np.ones((3, 4, 5), np.float32), np.full((3, 4, 5), 2, np.float32)
        for wait in (True, False):
            self.assertTrue(np.array_equal(model.run(a, b, wait=wait)[0].numpy(), a + b))
        with unittest.mock.patch.object(_native, "RUN_ENQUEUES", 1 << 20):
            model.run(a, b)
            self.check("INVALID_ARGUMENT", "no flags", model.run, a, b, wait=False)

    def test_outputs_are_written_to_arrays(self):
        model = keel.load(case("test_add"))
        name, shape = model.outputs[0].name, (3, 4, 5)
        a, b = np.ones(shape, np.float32), np.full(shape, 2, np.float32)
        raw = np.full(a.nbytes + 3, 9, np.uint8)
        for i in range(6):  # in dynamic and static runs; the last memory is not aligned
            y = (np.empty(shape, np.float32), raw, raw[3:])[i % 3]
            (got,) = model.run(a + i, b, into={name: y})
            self.assertIs(got, y)
            seen = y if y.dtype == np.float32 else y[:a.nbytes].view(np.float32).reshape(shape)
            np.testing.assert_array_equal(seen, a + i + b)
            self.assertIsInstance(model.run(a, b)[0], keel.Tensor)
        wide = np.empty((3, 4, 10), np.float32)
        read_only = np.empty(shape, np.float32)
        read_only.flags.writeable = False
        for y, error, why in (
                (wide[:, :, ::2], ValueError, "contiguous array"),
                (wide, ValueError, r"another shape than the array, which is \[3, 4, 10\]"),
                (np.empty(60, np.float32), ValueError, "another shape"),
                (np.empty(shape), ValueError, "other elements than the array, which is of 'd'"),
                (read_only, ValueError, "may be written to"),
                ([1.0], TypeError, "must show its memory .* this is a list"),
                (np.empty(8, np.uint8), keel.Error, "8"), (a, keel.Error, "overlap")):
            with self.assertRaisesRegex(error, why):
                model.run(a, b, into={name: y})
        with self.assertRaisesRegex(TypeError, "into: the model has no output 'q'; its outputs"):
            model.run(a, b, into={"q": wide})
        with self.assertRaisesRegex(keel.Error, "KEEL_RUN_ENQUEUES"):
            model.run(a, b, into={name: np.empty(shape, np.float32)}, wait=False)
        np.testing.assert_array_equal(a, 1)
        raw[:] = 9
        model.run(a, b, into={name: raw})
        self.assertEqual(list(raw[a.nbytes:]), [9, 9, 9])  # what is behind stays

    def test_arrays_for_open_sizes(self):
        model = keel.load(OPEN, device="cpu:0")
        name = model.outputs[0].name
        for n in (4, 1, 7, 4, 4, 4, 0):
            x = np.arange(2 * n * n, dtype=np.float32).reshape(n, 2 * n)
            y = np.empty_like(x)
            self.assertIs(model.run(x, into={name: y})[0], y)
            np.testing.assert_array_equal(y, 2 * x)
        with self.assertRaisesRegex(ValueError, r"came as \[2, 4\], and the array is \[4, 2\]"):
            model.run(np.ones((2, 4), np.float32), into={name: np.empty((4, 2), np.float32)})

    def test_donated_inputs_are_used_up(self):
        context = keel.open()
        model = context.load(case("test_matmul_3d"))
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        y = x.reshape(2, 4, 3)
        want = np.matmul(x, y)
        for name in ("a", "b"):
            a, b = context.tensor(x), context.tensor(y)
            given = a if name == "a" else b
            got = model.run(a, b, donate=[name])
            np.testing.assert_array_equal(got[0], want)
            for use in (given.numpy, lambda: model.run(a, b), lambda: given.shape):
                with self.assertRaisesRegex(ValueError, "was donated"):
                    use()
        a, b = context.tensor(x), context.tensor(y)
        self.check("DEADLINE_EXCEEDED", ".", model.run, a, b, timeout=1e-9, donate=["a"])
        with self.assertRaisesRegex(ValueError, "was donated"):
            a.numpy()  # a run that fails has used it up, too
        np.testing.assert_array_equal(b, y)
        a = context.tensor(x)
        for error, words, names in ((TypeError, "no input 'q'", ["q"]),
                                    (ValueError, "'a' is given twice", ["a", "a"]),
                                    (TypeError, "'b' is not a keel.Tensor, but of type ndarray", "b")):
            with self.assertRaisesRegex(error, "^donate: .*" + words):
                model.run(a, y, donate=names)
        square = np.ones((2, 3, 3), np.float32)
        both = context.tensor(square)
        with self.assertRaisesRegex(ValueError, "'a' is given twice"):
            model.run(both, both, donate="a")
        np.testing.assert_array_equal(model.run(a, y)[0], want)  # refused before it was taken

    def test_a_refused_plugin_says_why(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            with self.assertRaisesRegex(keel.Error, file.name + ": not a shared library"):
                keel.open(plugins=[file.name])
            with unittest.mock.patch.dict(os.environ, {"KEEL_PLUGIN_PATH": file.name,
                                                       "KEEL_LOG": "error"}):
                found = [p for p in keel.open().plugins() if p.path == file.name][0]
        self.assertNotEqual(found.status, "OK")
        self.assertTrue(found.reason)

    def test_options_reach_a_plugin(self):
        with self.assertRaisesRegex(keel.Error, 'option isa is "none such"'):
            keel.open(options={"cpu.isa": "none such"})
        with self.assertRaisesRegex(keel.Error, 'there is no plugin "gpu"'):
            keel.open(options={"gpu.isa": "base"})
        self.assertTrue(keel.open(options={"cpu.isa": "base"}).device("cpu").kernel_count)

    def test_without_the_library(self):
        done = subprocess.run([sys.executable, "-c", "import keel"], text=True,
                              env={**os.environ, "KEEL_LIBRARY": "/no/libkeel.so.0"},
                              capture_output=True, check=False)
        self.assertIn("install libkeel0, or set KEEL_LIBRARY", done.stderr)


class Structs(unittest.TestCase):
    """The structs of _native.py are those of the headers."""

    PAIRS = (("keel_context_params", _native.ContextParams),
             ("keel_plugin_info", _native.PluginInfo),
             ("keel_device_facts", _native.DeviceFacts),
             ("keel_property", _native.Property), ("keel_memory_facts", _native.MemoryFacts),
             ("keel_port", _native.Port), ("keel_plan_params", _native.PlanParams),
             ("keel_run_params", _native.RunParams),
             ("keel_output_memory", _native.OutputMemory))

    def test_they_have_the_headers_layout(self):
        compiler = shutil.which("cc")
        root = os.path.join(os.path.dirname(__file__), *[".."] * 4)
        if not compiler or not os.path.isdir(os.path.join(root, "host")):
            self.skipTest("no compiler, or no headers")
        lines, want = [], []
        for name, struct in self.PAIRS:
            lines.append(f'P("%zu\\n", sizeof({name}));')
            want.append(ctypes.sizeof(struct))
            for field in struct._fields_:
                lines.append(f'P("%zu\\n", offsetof({name}, {field[0]}));')
                want.append(getattr(struct, field[0]).offset)
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "structs.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write("#include <keel/keel.h>\n#include <stddef.h>\n#include <stdio.h>\n"
                           "#define P printf\nint main(void) {\n" + "\n".join(lines)
                           + "\nreturn 0; }\n")
            program = os.path.join(folder, "structs")
            subprocess.run([compiler, f"-I{root}/host/include", f"-I{root}/device_api/include",
                            source, "-o", program], check=True)
            out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual([int(line) for line in out.split()], want)


class Around(unittest.TestCase):
    def test_devices_say_what_they_are(self):
        cpu = keel.device("cpu")
        self.assertEqual((cpu.name, cpu.kind), ("cpu:0", "cpu"))
        self.assertIn(cpu, keel.devices())
        self.assertGreater(cpu.memory()["total"], 0)
        self.assertIn("compute_units", cpu.properties())
        self.assertTrue(any(p.name == "cpu" and p.status == "OK" for p in keel.plugins()))

    def test_drivers_are_opened_when_they_are_needed(self):
        script = """
import sys, keel
def opened():
    with open("/proc/self/maps") as maps:
        return any("libOpenCL" in line or "libvulkan" in line for line in maps)
model = keel.load(sys.argv[1], device="cpu:0")
import numpy as np
model.run(np.zeros((1, 1, 2, 2), np.float32))
assert keel.device().name == "cpu:0" and not opened()
names = [device.name for device in keel.devices()]
assert names[0] == "cpu:0"
if len(names) > 1:
    assert keel.load(sys.argv[1], device=names[1]).run(np.zeros((1, 1, 2, 2), np.float32))
assert [p.name for p in keel.plugins() if p.status == "OK" and "hidden" in p.reason] == []
context = keel.open(threads=1)
for name in names[1:]:
    assert context.device(name).name == name
"""
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("KEEL_VISIBLE_DEVICES", "KEEL_DEVICE")}
        done = subprocess.run([sys.executable, "-c", script, case("test_identity")], text=True,
                              env=environment, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_trace_is_written(self):
        model = keel.load(case("test_matmul_3d"))
        x = np.zeros((2, 3, 4), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            with keel.trace(path):
                model.run(x, x.reshape(2, 4, 3))
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        self.assertTrue(any(event.get("name") == "run" for event in events))

    def test_a_context_closes(self):
        context = keel.open(threads=1, only=False)
        model = context.load(case("test_identity"))
        model.run(np.zeros((1, 1, 2, 2), np.float32))
        device = context.device("cpu")
        with self.assertRaisesRegex(ValueError, "are left"):
            context.close()
        del model
        gc.collect()
        context.close()
        context.close()
        for call in (context.devices, device.memory, lambda: context.tensor([1])):
            with self.assertRaisesRegex(ValueError, "is closed"):
                call()


if __name__ == "__main__":
    unittest.main()
