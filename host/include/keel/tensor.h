/* keel/tensor.h - values: typed data on a device, now or later, or an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_TENSOR_H
#define KEEL_TENSOR_H

#include <keel/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reference-counted, immutable value: a tensor, a sequence of values, or an
 * empty optional. It is a future: ready, pending, or failed with an error that
 * names its origin; a value computed from a failed one fails with the same
 * error. Any thread may use it. */
typedef struct keel_tensor keel_tensor;

/* Makes a tensor from host data, which is copied.
 *
 * dims  `rank` sizes in elements, each >= 0; NULL for rank 0
 * data  packed, last dimension fastest; NULL: zeros
 * Returns KD_OK, KD_INVALID_ARGUMENT (type, rank over 16, negative or too large
 * dims), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_tensor_create(keel_context *context, kd_dtype dtype,
                                        uint32_t rank, const int64_t *dims,
                                        const void *data,
                                        KD_OWNED keel_tensor **out_tensor);

/* Makes a tensor whose elements are all the same, such as the initial state of
 * a KV cache. A device fills its own memory, after its earlier work and without
 * host memory of that size.
 *
 * device   NULL: in host memory
 * element  one element, as in packed data (a type smaller than a byte: in the
 *          lowest bits of one); NULL: zero
 * Returns KD_OK, KD_INVALID_ARGUMENT (as above), KD_OUT_OF_MEMORY, or why the
 * device cannot be used. */
KEEL_API keel_status keel_tensor_fill(keel_context *context,
                                      keel_device *device, kd_dtype dtype,
                                      uint32_t rank, const int64_t *dims,
                                      const void *element,
                                      KD_OWNED keel_tensor **out_tensor);

/* Makes a tensor from host memory that stays the caller's. It must not change
 * until `done` is called (NULL: until the tensor is released).
 *
 * The tensor uses the memory itself if `data` is aligned to its elements;
 * otherwise the memory is copied, and `done` is called before this returns. A
 * device that works on host addresses reads the memory in place if it begins at
 * a multiple of the device's alignment, or if the op's kernel accepts any
 * offset, as all of the CPU's do; otherwise the device reads a copy, made each
 * time. Other devices read copies, but see keel_tensor_to. (Without `done` they
 * always do.)
 *
 * done  called once, by the thread that drops the last reference, when no work
 *       reads the memory any more; it may release values
 * Errors as above; `done` is not called then. */
KEEL_API keel_status keel_tensor_wrap(keel_context *context, kd_dtype dtype,
                                      uint32_t rank, const int64_t *dims,
                                      const void *data,
                                      void (*done)(void *done_context),
                                      void *done_context,
                                      KD_OWNED keel_tensor **out_tensor);

/* Makes a tensor of strings (KD_STRING), which are copied. It stays in host memory and is not
 * passed to devices: the runtime itself runs ONNX's ops on strings. keel_tensor_size returns 0 for
 * it, and keel_tensor_read and keel_tensor_data do not give its data.
 *
 * dims     as above
 * strings  one for each element, in UTF-8 where an op looks at characters
 * sizes    in bytes; NULL: each string ends at its first byte of 0
 * Returns KD_OK, KD_INVALID_ARGUMENT (as above, or a string is NULL), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_strings_create(keel_context *context, uint32_t rank,
                                         const int64_t *dims,
                                         const char *const *strings,
                                         const uint64_t *sizes,
                                         KD_OWNED keel_tensor **out_tensor);

/* An element of a tensor of strings, by its index among all. Waits. The string lives as long as the
 * tensor, and ends with a byte of 0.
 *
 * out_size  bytes, without that 0; may be NULL
 * Returns KD_OK, KD_INVALID_ARGUMENT (not a tensor of strings), KD_OUT_OF_RANGE, or the value's
 * failure. */
KEEL_API keel_status keel_strings_at(keel_tensor *tensor, int64_t index,
                                     const char **out_string,
                                     uint64_t *out_size);

/* Adds or removes a reference. NULL does nothing. */
KEEL_API keel_tensor *keel_tensor_retain(keel_tensor *tensor);
KEEL_API void keel_tensor_release(keel_tensor *tensor);

/* Blocks until the value is ready and the device's work that writes it has ended, or until
 * either has failed. Until it is ready the caller helps the pool, unless it is an output of a begun
 * run with a limit or a token. Returns KD_OK, or the status of the failure. */
KEEL_API keel_status keel_tensor_wait(keel_tensor *tensor);

/* Returns at once: KD_OK (ready, though a device's work may be under way), KD_BUSY (pending), or
 * the status it failed with. After either call, keel_message() has the text of a failure. */
KEEL_API keel_status keel_tensor_query(keel_tensor *tensor);

/* Calls `function` once, when the value is ready or has failed: on the calling
 * thread, before this returns, if it is so already, otherwise later, on the
 * thread that resolves it, or on one of Keel's if a run is cancelled or out of
 * time. That may be a thread of a device's driver: the function must be short
 * and must not block, nor wait for another value. It may otherwise call all of
 * Keel, but for keel_close; it gets no reference to the tensor, which lives at
 * least until it returns. It is never called for a value that is never resolved
 * (a promise that is not ended).
 *
 * function  status: KD_OK, or what the value failed with; keel_message() is
 *           the text of that
 * Returns KD_OK, KD_OUT_OF_MEMORY (then it is not called). */
KEEL_API keel_status
keel_tensor_on_done(keel_tensor *tensor,
                    void (*function)(void *function_context,
                                     keel_tensor *tensor, keel_status status),
                    void *function_context);

/* The same, when the work that writes the value has ended too. A device's value is ready once
 * that work is enqueued, as later work in the queue finds the data; this call reports when the
 * data has been written, and whether the work failed. The value may be released, or donated,
 * before: the function gets no tensor. It is called on a thread of Keel's, or on the calling
 * thread if there is nothing to wait for.
 *
 * function  status: KD_OK, or what the value or the work failed with; keel_message() is the
 *           text of that
 * Returns KD_OK, KD_OUT_OF_MEMORY (then it is not called). */
KEEL_API keel_status keel_tensor_on_written(
    keel_tensor *tensor,
    void (*function)(void *function_context, keel_status status),
    void *function_context);

/* A promise: a value whose data comes later from the application; dependents
 * wait for it. One thread ends it, once, by `fulfil` or `fail`, even if it has
 * nothing to deliver: dependents of a promise that is not ended wait for ever.
 * `fulfil` takes over the other value's data and type. */
KEEL_API keel_status keel_tensor_promise(keel_context *context,
                                         KD_OWNED keel_tensor **out_tensor);
KEEL_API keel_status keel_tensor_fulfil(keel_tensor *promise,
                                        keel_tensor *value);
KEEL_API keel_status keel_tensor_fail(keel_tensor *promise, keel_status status,
                                      const char *message);

/* Type and shape; they wait for a pending value. KD_NONE, 0, NULL and -1 if the
 * value is not a tensor. dims live as long as the process. */
KEEL_API kd_dtype keel_tensor_dtype(keel_tensor *tensor);
KEEL_API uint32_t keel_tensor_rank(keel_tensor *tensor);
KEEL_API const int64_t *keel_tensor_dims(keel_tensor *tensor);
KEEL_API int64_t keel_tensor_elements(keel_tensor *tensor);

/* Bytes of its elements, packed. */
KEEL_API uint64_t keel_tensor_size(keel_tensor *tensor);

/* The device that holds the data; NULL: host memory. */
KEEL_API keel_device *keel_tensor_device(keel_tensor *tensor);

/* Copies the data, packed, to host memory. Waits for it.
 *
 * size  of target; must be keel_tensor_size
 * Returns KD_OK, KD_INVALID_ARGUMENT, or the value's failure. */
KEEL_API keel_status keel_tensor_read(keel_tensor *tensor, void *target,
                                      uint64_t size);

/* The same data on a device (NULL: in host memory); if it is there already, the
 * same tensor, retained. A device that shares memory with the host may read the
 * data in place: memory that was wrapped with a `done`, or is Keel's own, is
 * then held as long as the new tensor. In the same way, a large tensor of a
 * device whose memory the host can map is not copied to host memory, and the
 * device's memory is not free for other work until the tensor in host memory is
 * released, too.
 * Returns KD_OK, KD_OUT_OF_MEMORY, or the value's failure. */
KEEL_API keel_status keel_tensor_to(keel_tensor *tensor, keel_device *device,
                                    KD_OWNED keel_tensor **out_tensor);

/* The address of the data, for reading, if it is in host memory or in device
 * memory that the host can address; otherwise NULL. Waits. */
KEEL_API const void *keel_tensor_data(keel_tensor *tensor);

/* "f32[1,3,224,224]", "pending", "sequence of 3", written into a buffer and cut
 * to fit. Returns the buffer. */
KEEL_API const char *keel_tensor_text(keel_tensor *tensor, char *buffer,
                                      uint32_t size);

/* Sequences: values that hold other values, retained. In `at`, negative indices
 * count from the end. Returns KD_OK, KD_OUT_OF_RANGE, KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_sequence_create(keel_context *context,
                                          keel_tensor *const *items,
                                          uint32_t count,
                                          KD_OWNED keel_tensor **out_sequence);
/* The number of items in a sequence; -1 for any other value. Waits. */
KEEL_API int64_t keel_sequence_length(keel_tensor *sequence);
KEEL_API keel_status keel_sequence_at(keel_tensor *sequence, int64_t index,
                                      KD_OWNED keel_tensor **out_item);

/* An optional without a value, and whether a value is an empty optional. */
KEEL_API keel_status keel_optional_empty(keel_context *context,
                                         KD_OWNED keel_tensor **out_optional);
KEEL_API int keel_optional_is_empty(keel_tensor *value);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_TENSOR_H */
