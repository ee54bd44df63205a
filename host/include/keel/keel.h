/* keel/keel.h - Keel's API for applications: all of it, and the map to it.
 *
 *   context.h  open the runtime; plugins, devices, kernels, device scopes
 *   tensor.h   values: data on a device, now or later, or an error
 *   op.h       run single ops, by name or prepared
 *   program.h  build or load a program, plan it for a device, run it
 *   group.h    collective operations of several devices
 *   link.h     ranks: processes that exchange values, on one machine or many
 *   split.h    splits a program into one for each of several ranks
 *   phases.h   a program's computations and exchanges, for simulators
 *   file.h     values in files
 *   dlpack.h   tensors from and to other libraries
 *   external.h tensors' memory for other processes and devices, and theirs
 *   native.h   the driver's own handles, and queues of the application's
 *   trace.h    a timeline of events
 *   error.h    statuses and messages
 *
 * and not here: debug.h, for tests and comparison; link_module.h, for modules of MPI
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_KEEL_H
#define KEEL_KEEL_H

#include <keel/context.h>
#include <keel/dlpack.h>
#include <keel/error.h>
#include <keel/external.h>
#include <keel/file.h>
#include <keel/group.h>
#include <keel/link.h>
#include <keel/native.h>
#include <keel/op.h>
#include <keel/phases.h>
#include <keel/program.h>
#include <keel/split.h>
#include <keel/tensor.h>
#include <keel/trace.h>

#endif /* KEEL_KEEL_H */
