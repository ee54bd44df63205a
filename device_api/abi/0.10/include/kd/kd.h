/* kd/kd.h - the Keel device ABI: all of it, and the map to it.
 *
 * A plugin is one shared library that exports one function (KD_ENTRY), which
 * returns one const table (kd_plugin). What the table leaves NULL the plugin
 * does not do, and the host does without.
 *
 *   level 0  core      plugin.h   who the plugin is, its devices
 *                      option.h   what users may set
 *                      device.h   the facts of a device
 *                      property.h what more is known of it
 *                      memory.h   allocate, release, copy
 *                      kernel.h   which ops it can do, and how to run them
 *   level 1  async     stream.h   queues of work and events
 *   level 2  replay    capture.h  record a stream once, launch it often
 *   level 3  compile   region.h   its own compiler on whole parts of a graph
 *   options            profile.h, collective.h, layout.h, kd_peer_table and
 *                      kd_external_table in memory.h, extensions by name
 *
 *   ops of its own     op.h       arguments, attributes and shapes
 *   from the host      host.h     errors, log, memory, threads, reading ops
 *   words              base.h     versions, statuses, element types, handles
 *                      tensor.h   what a kernel sees of a tensor
 *   conveniences       help.h     inline, no part of the ABI
 *
 * samples/minimal_plugin is a whole plugin of level 0.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_KD_H
#define KD_KD_H

#include <kd/help.h>
#include <kd/plugin.h>

#endif /* KD_KD_H */
