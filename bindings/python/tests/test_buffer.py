# SPDX-License-Identifier: BSD-3-Clause
"""Buffers: every kind of exporter, views without a copy, release under flight, who keeps what alive."""
import array
import ctypes
import errno
import gc
import mmap
import os
import sys
import unittest
import weakref

import nvmfr

from support import BLOCK, SoftCase, needs_numpy, pattern


class Exporters(SoftCase):
    """Memory of others, registered."""

    def check(self, obj, as_bytes):
        """A read lands in obj itself, and views are of it."""
        self.fill(16)
        buffer = self.host.register(obj)
        self.controller.namespace().readinto(buffer, 3)
        self.assertEqual(as_bytes(obj), pattern(3, len(buffer) // BLOCK))
        self.assertEqual(bytes(buffer.view), as_bytes(obj))
        buffer.view[0] = 0xa5
        self.assertEqual(as_bytes(obj)[0], 0xa5)
        self.assertEqual(self.controller.queue_pair(4).info.bounced_bytes, 0)
        buffer.release()
        self.assertTrue(buffer.released)

    def test_bytearray(self):
        data = bytearray(2 * BLOCK)
        self.check(data, bytes)

    def test_bytearray_is_held(self):
        data = bytearray(BLOCK)
        buffer = self.host.register(data)
        with self.assertRaises(BufferError):
            data.append(1)  # would move it
        buffer.release()
        del buffer
        data.append(1)

    def test_mmap(self):
        with mmap.mmap(-1, 4096) as area:
            self.check(area, lambda a: a[:])

    def test_array(self):
        self.check(array.array("d", [0.0] * BLOCK), lambda a: a.tobytes())

    def test_memoryview_slice(self):
        data = bytearray(3 * BLOCK)
        self.check(memoryview(data)[BLOCK:2 * BLOCK], bytes)
        self.assertEqual(data[:BLOCK], bytes(BLOCK))
        self.assertEqual(data[2 * BLOCK:], bytes(BLOCK))

    def test_ctypes(self):
        self.check((ctypes.c_uint32 * BLOCK)(), bytes)

    @needs_numpy
    def test_numpy(self):
        import numpy
        self.check(numpy.zeros((4, 2, 64), dtype=numpy.float64), lambda a: a.tobytes())
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            self.host.register(numpy.zeros((8, 8))[:, ::2])
        fixed = numpy.zeros(8)
        fixed.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.host.register(fixed)
        with self.assertRaisesRegex(TypeError, "Python objects"):
            self.host.register(numpy.array([None] * 8))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed for this Python")
        self.check(torch.zeros((2, BLOCK), dtype=torch.bfloat16),
                   lambda t: t.view(torch.uint8).numpy().tobytes())

    def test_tensor(self):
        """What has a tensor's methods and no buffer protocol."""
        tensor = Tensor(2 * BLOCK)
        self.check(tensor, lambda t: bytes(t.data))

    def test_tensor_is_held(self):
        tensor = Tensor(BLOCK)
        gone = weakref.ref(tensor)
        buffer = self.host.register(tensor)
        del tensor
        gc.collect()
        self.assertIsNotNone(gone())
        buffer.release()
        del buffer
        gc.collect()
        self.assertIsNone(gone())

    def test_tensor_elsewhere(self):
        with self.assertRaisesRegex(nvmfr.UnsupportedError, "cuda:0.*dma-buf"):
            self.host.register(Tensor(BLOCK, "cuda:0"))
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            self.host.register(Tensor(BLOCK, contiguous=False))

    def test_refused(self):
        for obj, error in ((b"fixed", ValueError), (bytearray(), ValueError), (5, TypeError),
                           ("text", TypeError)):
            with self.subTest(obj), self.assertRaises(error):
                self.host.register(obj)
        with self.assertRaises(nvmfr.ArgumentError):
            self.host.register(bytearray(8), access=8)

    def test_access(self):
        buffer = self.host.register(bytearray(BLOCK), nvmfr.Access.SOURCE)
        with self.assertRaises(nvmfr.ArgumentError):
            self.controller.namespace().readinto(buffer, 0)

    def test_cuda(self):
        with self.assertRaisesRegex(TypeError, "CUDA"):
            self.host.register_cuda(bytearray(8))
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU; its path is not this test's")
        with self.assertRaisesRegex(nvmfr.UnsupportedError, "cuMemGetHandleForAddressRange|CUDA error"):
            self.host.register_cuda(Tensor(BLOCK, "cuda:0"))

    def test_dmabuf(self):
        with self.assertRaises(OSError) as caught:
            self.host.register_dmabuf(-1, 4096)
        self.assertEqual(caught.exception.errno, errno.EBADF)
        for size, offset in ((0, 0), (4096, -1)):
            with self.assertRaises(ValueError):
                self.host.register_dmabuf(-1, size, offset)
        # The embedded target maps it, as a NIC's driver would; a memfd can be mapped, too.
        fd = os.memfd_create("dmabuf")
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, 2 * BLOCK * 8)
        self.fill(8)
        with self.host.register_dmabuf(fd, BLOCK * 8, BLOCK * 8) as buffer:
            self.controller.namespace().readinto(buffer, 0)
            self.assertEqual(buffer.address, 0)
            with self.assertRaisesRegex(nvmfr.UnsupportedError, "no address"):
                buffer.view
        self.assertEqual(os.pread(fd, 2 * BLOCK * 8, 0), bytes(BLOCK * 8) + pattern(0, 8))


class Device:
    """torch.device"""

    def __init__(self, name):
        self.name = name
        self.type = name.split(":")[0]

    def __str__(self):
        return self.name


class Tensor:
    """What a torch tensor shows of itself."""

    def __init__(self, size, device="cpu", contiguous=True):
        self.data = (ctypes.c_ubyte * size)()
        self.device = Device(device)
        self.contiguous = contiguous

    def data_ptr(self):
        return ctypes.addressof(self.data)

    def numel(self):
        return len(self.data) // 2

    def element_size(self):
        return 2

    def is_contiguous(self):
        return self.contiguous


class Views(SoftCase):
    """The library's memory, seen."""

    def setUp(self):
        super().setUp()
        self.fill(8)
        self.buffer = self.host.alloc(8 * BLOCK)
        self.expected = pattern(0, 8)

    def read(self):
        self.controller.namespace().readinto(self.buffer, 0)

    def test_memoryview(self):
        view = self.buffer.view
        self.read()
        self.assertEqual((view.nbytes, view.readonly, bytes(view)), (8 * BLOCK, False, self.expected))
        self.assertEqual(ctypes.addressof(self.buffer.memory), self.buffer.address)
        self.assertEqual(len(self.buffer), 8 * BLOCK)

    @unittest.skipIf(sys.version_info < (3, 12), "Python before 3.12 does not ask for __buffer__")
    def test_buffer_protocol(self):
        view = memoryview(self.buffer)
        self.read()
        self.assertEqual(bytes(view), self.expected)

    @needs_numpy
    def test_numpy(self):
        import numpy
        arrays = [numpy.frombuffer(self.buffer.view, dtype=numpy.uint8), numpy.asarray(self.buffer)]
        if hasattr(numpy, "from_dlpack"):
            arrays.append(numpy.from_dlpack(self.buffer))
        self.read()
        for seen in arrays:
            self.assertEqual(seen.tobytes(), self.expected)
            self.assertEqual(seen.ctypes.data, self.buffer.address)

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed for this Python")
        tensor = torch.from_dlpack(self.buffer)
        self.read()
        self.assertEqual(bytes(tensor.tolist()), self.expected)

    def test_dlpack_arguments(self):
        self.assertEqual(self.buffer.__dlpack_device__(), (1, 0))
        for options in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
            with self.assertRaises(BufferError):
                self.buffer.__dlpack__(**options)

    def test_a_view_keeps_the_memory(self):
        view = self.buffer.view
        self.read()
        self.buffer.release()
        with self.assertRaisesRegex(ValueError, "released"):
            self.read()
        self.host.close()
        self.assertTrue(self.host.closed)
        self.assertEqual(bytes(view), self.expected)
        self.assertFalse(self.host._handle.closed)  # in C it lives until its memory is gone
        view.release()
        del view
        self.assertTrue(self.host._handle.closed)

    def test_a_view_keeps_a_forgotten_buffer(self):
        view = self.buffer.view
        self.read()
        del self.buffer
        gc.collect()
        self.assertEqual(bytes(view), self.expected)
        self.assertEqual(len(self.host._handle.buffers), 1)
        del view
        self.assertEqual(len(self.host._handle.buffers), 0)

    def consume(self, capsule):
        """What a consumer does: takes the tensor, renames the capsule. Returns the deleter's call."""
        api = ctypes.pythonapi
        get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", api))
        rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_SetName", api))
        managed = nvmfr._dlpack._Managed.from_address(get(capsule, b"dltensor"))
        self.used = ctypes.c_char_p(b"used_dltensor")
        rename(capsule, self.used)
        self.assertEqual((managed.tensor.data, managed.tensor.ndim, managed.tensor.bits),
                         (self.buffer.address, 1, 8))
        self.assertEqual(ctypes.c_int64.from_address(managed.tensor.shape).value, len(self.buffer))
        return lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))

    def test_dlpack_keeps_the_memory_until_its_deleter(self):
        delete = self.consume(self.buffer.__dlpack__())
        gc.collect()
        self.buffer.release()
        self.assertEqual(len(self.host._handle.buffers), 1)
        self.host.close()
        self.assertFalse(self.host._handle.closed)
        delete()
        nvmfr.Host().close()  # looks after those that ended
        self.assertTrue(self.host._handle.closed)

    def test_dlpack_never_taken(self):
        capsule = self.buffer.__dlpack__()
        nvmfr._dlpack.sweep()
        self.assertEqual(len(nvmfr._dlpack._records), 1)
        del capsule
        self.buffer.release()
        self.assertEqual(len(self.host._handle.buffers), 0)


class Flight(SoftCase):
    """What is in flight is not released."""

    def setUp(self):
        super().setUp()
        self.qpair = self.controller.queue_pair(4)
        self.done = nvmfr.Completions(4)
        self.silence(count=0)

    def land(self):
        """What is in flight ends."""
        self.target.drop()
        while True:
            try:
                self.qpair.wait(self.done, 1, 10)
            except nvmfr.LostError:
                return

    def test_refused(self):
        for buffer in (self.host.alloc(BLOCK), self.host.register(bytearray(BLOCK))):
            self.qpair.read(buffer, 0, 1)
            with self.assertRaises(nvmfr.BusyError):
                buffer.release()
            self.assertFalse(buffer.released)
            buffer.view[0] = 1
            with self.assertRaises(nvmfr.BusyError):
                buffer.release()  # with a view, too
        others = self.host.alloc(BLOCK)
        others.release()
        self.land()
        buffer.release()

    def test_forgotten_in_flight(self):
        data = bytearray(BLOCK)
        buffer = self.host.register(data)
        self.qpair.read(buffer, 0, 1)
        del buffer
        gc.collect()
        with self.assertRaises(BufferError):
            data.append(1)
        self.land()
        self.host._handle.sweep()
        data.append(1)

    def test_batch_of_a_released_buffer(self):
        buffer = self.host.alloc(BLOCK)
        batch = nvmfr.Batch(1)
        batch.fill(nvmfr.Op.READ, self.nsid, 0, 1, buffer)
        buffer.release()
        with self.assertRaisesRegex(ValueError, "was released"):
            self.qpair.submit(batch)
        batch.clear()
        batch.fill(nvmfr.Op.READ, self.nsid, 0, 1, self.host.alloc(BLOCK))
        self.assertEqual(self.qpair.submit(batch), 1)

    def test_simple_read_that_times_out(self):
        namespace = self.controller.namespace()
        data = bytearray(BLOCK)
        with self.assertRaises(TimeoutError):
            namespace.readinto(data, 0, timeout=0.02)
        self.host._handle.sweep()
        data.append(1)  # its queue pair was ended, so nobody reaches it
        self.target.clear_faults()
        self.assertEqual(len(namespace.read(0, 1)), BLOCK)

    def test_hosts_end(self):
        """Ends what is in flight before the memory goes."""
        self.qpair.read(self.host.alloc(BLOCK), 0, 1)
        self.host.close()
        self.assertTrue(self.host._handle.closed)


class Lifetimes(unittest.TestCase):
    """Nothing closed, everything forgotten, in any order."""

    def test_forgotten(self):
        host = nvmfr.Host()
        handle = host._handle
        controller = host.connect("nvmf+soft:?size=1M")
        qpair = controller.queue_pair(4)
        qpair.read(host.alloc(4096), 0, 1)
        host.loop = qpair  # a cycle
        del host, controller, qpair
        gc.collect()
        self.assertTrue(handle.closed)

    def test_a_buffer_keeps_its_host(self):
        buffer = nvmfr.Host().alloc(4096)
        gc.collect()
        buffer.view[0] = 1
        buffer.release()

    def test_context_managers(self):
        with nvmfr.Host() as host, host.connect("nvmf+soft:?size=1M") as controller, \
                controller.queue_pair() as qpair, host.alloc(4096) as buffer:
            qpair.pread(buffer, 4096, 0)
        self.assertTrue(buffer.released and qpair.closed and controller.closed and host.closed)
