/* kd/kd.h - the Keel device ABI: all of it, and a map.
 *
 * A plugin is one shared library that exports one function (KD_ENTRY), which
 * returns one const table (kd_plugin). Optional entries of the table may be
 * NULL: the plugin does not implement them, and the host works without them.
 *
 *   level 0  core      plugin.h   the plugin's name and version, its devices
 *                      option.h   what users may set
 *                      device.h   what a device is
 *                      property.h further facts of a device
 *                      memory.h   allocate, release, copy
 *                      kernel.h   which ops a device can run, and how
 *   level 1  async     stream.h   queues of work, and events in them
 *   level 2  replay    capture.h  record a stream once, launch it often
 *   level 3  compile   region.h   its own compiler for whole parts of a graph
 *   options            profile.h, collective.h, layout.h, kd_peer_table and
 *                      kd_external_table in memory.h
 *   extensions         native.h   the driver's own handles
 *
 *   ops of its own     op.h       arguments, attributes and shapes
 *   from the host      host.h     errors, log, memory, threads, reading ops
 *   common to all      base.h     versions, statuses, element types, handles
 *                      tensor.h   a tensor as a kernel sees it
 *   conveniences       help.h     inline, not part of the ABI
 *
 * samples/minimal_plugin is a complete plugin of level 0.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_KD_H
#define KD_KD_H

#include <kd/help.h>
#include <kd/plugin.h>

#endif /* KD_KD_H */
