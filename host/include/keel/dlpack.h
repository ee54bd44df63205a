/* keel/dlpack.h - tensors from and to other libraries, by DLPack.
 *
 * DLPack is how array libraries (NumPy, PyTorch, JAX ...) hand memory to each
 * other without a copy. Its structs are only named here: a caller that looks
 * into one includes DLPack's own dlpack.h, before or after this header.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_DLPACK_H
#define KEEL_DLPACK_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned; /* DLPack 1.x */
struct DLManagedTensor;          /* before 1.0 */

/* Copies if memory cannot be shared; without this flag, that is an error. */
#define KEEL_DLPACK_MAY_COPY 0x1u
/* Copies always: neither side sees what the other writes later. */
#define KEEL_DLPACK_COPY 0x2u

/* Makes a tensor from another library's, in DLPack version 1, and shares its
 * memory; nothing may change that memory while the tensor lives.
 *
 * It shares host-addressable memory (device kinds CPU, CUDA host and ROCm host)
 * with packed, row-major elements that are aligned to their size. Strided or
 * misaligned elements need a copy. Other kinds of memory are refused: copy to
 * host memory in the library that made them. Host memory serves every device,
 * see keel_tensor_wrap.
 *
 * Owns     on KD_OK the tensor owns `managed`, and its deleter (may be NULL) is
 *          called once, by whichever thread drops the last reference, when no
 *          work reads the memory any more; after a copy, before this returns.
 *          On failure `managed` stays the caller's, to call its deleter.
 * Returns KD_OK, KD_INVALID_ARGUMENT (NULL, negative or too large dims, no
 * data), KD_INCOMPATIBLE (another major version; nothing but the version was
 * read), KD_UNIMPLEMENTED (kind of memory, element type, lanes, a DLPack flag),
 * KD_FAILED_PRECONDITION (needs a copy, which `flags` do not allow),
 * KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_tensor_from_dlpack(
    keel_context *context, struct DLManagedTensorVersioned *managed,
    uint32_t flags, KD_OWNED keel_tensor **out_tensor);

/* The same for the unversioned struct of older libraries. */
KEEL_API keel_status keel_tensor_from_dlpack_legacy(
    keel_context *context, struct DLManagedTensor *managed, uint32_t flags,
    KD_OWNED keel_tensor **out_tensor);

/* Passes a tensor to another library, as DLPack version 1 with device kind CPU.
 * Waits for the value first.
 *
 * If keel_tensor_data returns the tensor's data, the memory is shared and
 * marked read-only, because Keel's values never change. Memory that the host
 * cannot address, or in a device's own layout, needs a copy. A copy belongs to
 * the receiver alone: it is marked as copied and may be written.
 *
 * Owns     the receiver calls the struct's deleter once, from any thread,
 *          before keel_close; until then it holds a reference to the tensor.
 * Returns KD_OK, KD_INVALID_ARGUMENT (not a tensor), KD_FAILED_PRECONDITION (needs
 * a copy, which `flags` do not allow), KD_UNIMPLEMENTED (DLPack has no such
 * element type), KD_OUT_OF_MEMORY, or the value's failure. */
KEEL_API keel_status
keel_tensor_to_dlpack(keel_tensor *tensor, uint32_t flags,
                      KD_OWNED struct DLManagedTensorVersioned **out_managed);

/* The same as the unversioned struct, which cannot say "read-only": use
 * KEEL_DLPACK_COPY if the receiver may write. */
KEEL_API keel_status
keel_tensor_to_dlpack_legacy(keel_tensor *tensor, uint32_t flags,
                             KD_OWNED struct DLManagedTensor **out_managed);

/* The number of structs of both functions whose deleter was not called yet. The
 * context may close when it is 0. Any thread. */
KEEL_API uint32_t keel_dlpack_count(const keel_context *context);

/* Destroys a Python capsule (PyCapsule_New) named "dltensor" or
 * "dltensor_versioned": calls the deleter of its struct, unless a consumer has
 * taken the struct and so renamed the capsule. For bindings without C code of
 * their own: Python code cannot run in a destructor, where an exception may be
 * pending. Does nothing in a process without Python. */
KEEL_API void keel_dlpack_destroy_capsule(void *capsule);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_DLPACK_H */
