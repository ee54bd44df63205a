/* keel/external.h - tensors' memory for other processes, libraries and devices, and theirs
 * for tensors: by file descriptors, without a copy.
 *
 * kd/memory.h has the kinds. KD_EXTERNAL_SHARED_FD is for all devices that use host memory,
 * and for mmap; KD_EXTERNAL_OPAQUE_FD for devices of equal uuid and driver
 * (keel_device_facts); KD_EXTERNAL_DMA_BUF for those whose drivers take it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_EXTERNAL_H
#define KEEL_EXTERNAL_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives a descriptor that reaches the data of a tensor on a device. It waits for the value
 * and for the device's work on it.
 *
 * A tensor whose memory was made for that (keel_device_export) is exported as it is; of
 * another one the device makes a copy, once a call, and the descriptor reaches nothing else.
 * Values do not change, so nobody may write to the memory; Keel uses it for nothing else,
 * also when the tensor is released, and whoever has the descriptor, or imported it, may
 * read as long as he likes.
 *
 * kind        KD_EXTERNAL_OPAQUE_FD, KD_EXTERNAL_DMA_BUF or KD_EXTERNAL_SHARED_FD
 * out_memory  the data begin at its offset; its size is at least the tensor's, and is
 *             to be given to the importer as it is, with the offset
 * Owns     the descriptor (`handle`) is the caller's: to be closed, sent to another process,
 *          or imported.
 * Returns KD_OK, KD_INVALID_ARGUMENT (host memory, no data, a kind that is no descriptor),
 * KD_UNIMPLEMENTED (the device exports nothing of this kind), KD_OUT_OF_MEMORY, or the
 * value's failure. */
KEEL_API keel_status keel_tensor_export(keel_tensor *tensor, uint32_t kind,
                                        kd_external *out_memory);

/* Makes a tensor on a device of memory that a descriptor reaches, without a copy. Nobody may
 * write to the memory as long as the tensor, or what was made from it by work that is not
 * done, is there; what its maker wrote must be done before the call.
 *
 * memory  as keel_tensor_export or another library gave it; the packed elements begin at
 *         its offset, and its size is at least theirs
 * Owns    the descriptor is Keel's where KD_OK is returned, and closed some time; else it
 *         is still the caller's.
 * Returns KD_OK, KD_INVALID_ARGUMENT (no such descriptor, less than the tensor's size, type
 * or dims as keel_tensor_create), KD_UNIMPLEMENTED (the device takes no memory of this kind
 * or offset), or why the device can't be used. */
KEEL_API keel_status keel_tensor_import(keel_device *device,
                                        const kd_external *memory,
                                        kd_dtype dtype, uint32_t rank,
                                        const int64_t *dims,
                                        KD_OWNED keel_tensor **out_tensor);

/* From now on tensors of more than 64 KiB on the device are made in memory that can be
 * exported as `kind`: keel_tensor_export needs no copy then, and keel_tensor_to hands them
 * without one to devices of other plugins that take it. Each takes a descriptor, or an
 * allocation of the driver's, to itself, of which there are some thousands; where there
 * are no more, tensors are made as ever. The memory is reused while it was never exported:
 * bytes behind a tensor's data may be those of an earlier tensor of this context.
 *
 * kind  as for keel_tensor_export; 0: as at first, no more
 * Returns KD_OK, KD_INVALID_ARGUMENT, KD_UNIMPLEMENTED (the device exports nothing of this
 * kind), or why the device can't be used. */
KEEL_API keel_status keel_device_export(keel_device *device, uint32_t kind);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_EXTERNAL_H */
