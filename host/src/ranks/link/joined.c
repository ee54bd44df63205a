/* joined.c - groups that the ranks' devices join, by a plugin that all ranks have: the ranks agree
 * at their first exchange among all ranks, and one rank of each group makes its id. */
#include <stdio.h>

#include "device/context.h"
#include "device/lost.h"
#include "ranks/link/link.h"

struct keel_link_card {
  uint32_t joins;  /* its device can join groups */
  uint32_t copies; /* its values are copied to and from the host */
  uint32_t machine, local_rank, local_size;
  uint32_t software, index; /* of its device */
  uint8_t uuid[16];
  char plugin[40], version[64];
};

/* The first rank's message to all ranks of a group: an id, or why there is none. */
typedef struct invitation {
  kd_status status;
  kd_group_id id;
} invitation;

/* ---- the device --------------------------------------------------------------------------- */

static kd_status make_stream(keel_link_devices *own, keel_device *device) {
  const keel_plugin *plugin = device->plugin;
  kd_status status = plugin->streams.create(device->handle, 0, 0, &own->stream);
  if (status != KD_OK) own->stream = NULL;
  if (status == KD_OK)
    status = plugin->events.create(device->handle, 0, &own->before);
  if (status != KD_OK) own->before = NULL;
  if (status == KD_OK)
    status = plugin->events.create(device->handle, 0, &own->after);
  if (status != KD_OK) own->after = NULL;
  return status;
}

static void drop_device(keel_link_devices *own) {
  keel_device *device = own->device;
  if (!device) return;
  const keel_plugin *plugin = device->plugin;
  keel_lost_enter(device); /* only to free */
  if (own->before && !own->stuck) plugin->events.destroy(own->before);
  if (own->after && !own->stuck) plugin->events.destroy(own->after);
  if (own->stream && !own->stuck) plugin->streams.destroy(own->stream);
  keel_lost_leave(device);
  if (!own->stuck) keel_device_unpin(device);
  own->device = NULL;
}

/* Whether the device can join groups; then it is the link's. */
static bool joined_take_device(keel_link *link, keel_device *device) {
  keel_link_devices *own = &link->devices;
  if (!device || !device->stream || !device->plugin->collectives.join ||
      keel_device_enter(device) != KD_OK)
    return false;
  keel_device_pin(device); /* its handle must not change from now on */
  own->device = device;
  kd_status status = make_stream(own, device);
  keel_lost_leave(device);
  if (status != KD_OK) drop_device(own);
  return status == KD_OK;
}

/* ---- cards ----------------------------------------------------------------------------- */

static keel_link_card make_card(keel_link *link, keel_device *device) {
  keel_link_card card = {.machine = link->world.machine,
                         .local_rank = link->world.local_rank,
                         .local_size = link->world.local_size};
  card.copies = device && device->stream && !keel_device_addressable(device);
  card.joins = joined_take_device(link, device);
  if (!card.joins) return card;
  card.software = (device->info.flags & KD_DEVICE_SOFTWARE) != 0;
  card.index = device->index;
  memcpy(card.uuid, device->info.uuid, sizeof card.uuid);
  snprintf(card.plugin, sizeof card.plugin, "%s", device->plugin->name);
  snprintf(card.version, sizeof card.version, "%s", device->plugin->version);
  return card;
}

static bool is_one_device(const keel_link_card *a, const keel_link_card *b) {
  static const uint8_t none[sizeof a->uuid];
  bool named = memcmp(a->uuid, none, sizeof none) != 0;
  return a->machine == b->machine && !a->software &&
         (named ? !memcmp(a->uuid, b->uuid, sizeof none)
                : a->index == b->index);
}

/* Why the ranks' devices form no group; NULL: they may. */
static const char *why_apart(const keel_link_card *cards, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    if (!cards[i].joins) return "not all have a device that can join a group";
    if (strcmp(cards[i].plugin, cards[0].plugin) != 0 ||
        strcmp(cards[i].version, cards[0].version) != 0)
      return "their devices are of different plugins";
    for (uint32_t k = 0; k < i; k++)
      if (is_one_device(&cards[i], &cards[k])) return "two have one device";
  }
  return NULL;
}

static void joined_say(const keel_link *link, uint32_t size, const char *why) {
  keel_log_line(&link->context->log, KD_LOG_INFO,
                "the devices of %u ranks join no group: %s", (unsigned)size,
                why);
}

/* ---- joining ----------------------------------------------------------------------------- */

static const char *words_of(kd_status status) {
  return keel_has_error() ? keel_message() : keel_status_name(status);
}

/* The first of the group makes its id, which all get. */
static keel_status invite(keel_link *link, void *comm, uint32_t flags,
                          const keel_link_group *group, invitation *out) {
  const keel_device *device = link->devices.device;
  invitation own = {KD_OK, {{0}}};
  invitation *all = calloc(group->size, sizeof *all);
  if (!all) return keel_no_memory(group->size * sizeof *all);
  keel_clear_error();
  if (!group->rank)
    own.status =
        device->plugin->collectives.make_id(device->handle, flags, &own.id);
  if (own.status != KD_OK) joined_say(link, group->size, words_of(own.status));
  keel_status status =
      keel_link_collect(link, comm, group->size, &own, sizeof own, all);
  *out = all[0];
  free(all);
  return status;
}

/* Whether all ranks of a communicator say yes. */
static keel_status ask_all(keel_link *link, void *comm, uint32_t ranks,
                           bool mine, bool *out_all) {
  uint8_t own = mine;
  uint8_t *all = calloc(ranks, 1);
  if (!all) return keel_no_memory(ranks);
  keel_status status = keel_link_collect(link, comm, ranks, &own, 1, all);
  *out_all = memchr(all, 0, ranks) == NULL;
  free(all);
  return status;
}

static void leave_group(const keel_link *link, keel_link_group *group,
                        bool gives_up) {
  const keel_device *device = link->devices.device;
  if (!group->handle) return;
  if (gives_up) device->plugin->collectives.abort(group->handle);
  if (!link->devices.stuck) device->plugin->collectives.destroy(group->handle);
  group->handle = NULL;
}

/* Until all have come. */
static keel_status await_all(keel_link *link, const keel_link_group *group) {
  keel_device *device = link->devices.device;
  uint64_t began = keel_now();
  kd_status status;
  keel_clear_error();
  for (uint32_t asked = 0;
       (status = device->plugin->collectives.status(group->handle)) == KD_BUSY;
       asked++)
    KEEL_TRY(keel_link_between(link, asked, began));
  if (status == KD_OK) return KD_OK;
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  keel_while(status, "while %s joined those of other ranks", device->name);
  return keel_device_check(device, status);
}

/* All members come here, each with its place. Without a group, where the devices make none, all
 * have none. */
static keel_status link_joined_join(keel_link *link, void *comm, uint32_t flags,
                                    keel_link_group *group) {
  const keel_device *device = link->devices.device;
  invitation invited;
  bool all = false;
  KEEL_TRY(invite(link, comm, flags, group, &invited));
  if (invited.status != KD_OK) return KD_OK;
  const kd_join what = {.struct_size = sizeof what,
                        .rank = group->rank,
                        .size = group->size,
                        .id = &invited.id};
  keel_clear_error();
  kd_status status =
      device->plugin->collectives.join(device->handle, &what, &group->handle);
  if (status != KD_OK) {
    group->handle = NULL;
    joined_say(link, group->size, words_of(status));
  }
  KEEL_TRY(ask_all(link, comm, group->size, status == KD_OK, &all));
  if (all) return await_all(link, group);
  leave_group(link, group, true);
  return KD_OK;
}

/* ---- all, those of a machine, and parts ---------------------------------------------------- */

/* Whether some are on other machines than the first. */
static bool is_spread(const keel_link_card *cards, const int64_t *ranks,
                      uint32_t count) {
  bool spread = false;
  for (uint32_t i = 0; i < count; i++)
    spread |= cards[ranks ? ranks[i] : i].machine !=
              cards[ranks ? ranks[0] : 0].machine;
  return spread;
}

/* Whether there are machines with equally many ranks, more than one each. */
static bool is_even(const keel_link_card *cards, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    uint32_t beside = 0;
    for (uint32_t k = 0; k < size; k++)
      beside += cards[k].machine == cards[i].machine;
    if (beside < 2 || beside != cards[i].local_size ||
        beside != cards[0].local_size)
      return false;
  }
  return true;
}

static keel_status joined_split(keel_link *link, uint32_t color, uint32_t key,
                                void **out_comm) {
  int error = link->mpi->split(color, key, out_comm);
  return error ? keel_link_error(link, error, "ranks are not parted") : KD_OK;
}

/* Two levels: groups of the machines' ranks, and communicators between them. */
static keel_status join_machine(keel_link *link) {
  keel_link_devices *own = &link->devices;
  const keel_link_world *world = &link->world;
  void *local = NULL;
  bool all = false;
  if (!is_even(own->cards, world->size)) return KD_OK;
  own->machine.size = world->local_size;
  own->machine.rank = world->local_rank;
  KEEL_TRY(joined_split(link, world->machine, world->local_rank, &local));
  keel_status status =
      joined_split(link, world->local_rank, world->machine, &own->between);
  if (status == KD_OK) status = link_joined_join(link, local, 0, &own->machine);
  if (status != KD_OK) return status; /* of the link, which has failed */
  link->mpi->release(local);
  KEEL_TRY(ask_all(link, NULL, world->size, own->machine.handle != NULL, &all));
  if (!all) leave_group(link, &own->machine, true);
  return KD_OK;
}

keel_status keel_link_agree(keel_link *link, keel_device *device) {
  keel_link_devices *own = &link->devices;
  uint32_t size = link->world.size;
  if (own->agreed || size == 1) return KD_OK;
  own->cards = calloc(size, sizeof *own->cards);
  if (!own->cards) return keel_no_memory(size * sizeof *own->cards);
  keel_link_card card = make_card(link, device);
  KEEL_TRY(keel_link_collect(link, NULL, size, &card, sizeof card, own->cards));
  own->agreed = true;
  own->pieces = true;
  for (uint32_t i = 0; i < size; i++)
    own->pieces &= own->cards[i].copies != 0;
  const char *why = why_apart(own->cards, size);
  if (why) {
    joined_say(link, size, why);
    drop_device(own);
    return KD_OK;
  }
  bool spread = is_spread(own->cards, NULL, size);
  own->all = (keel_link_group){.size = size, .rank = link->world.rank};
  KEEL_TRY(
      link_joined_join(link, NULL, spread ? KD_GROUP_MACHINES : 0, &own->all));
  return !own->all.handle && spread ? join_machine(link) : KD_OK;
}

keel_status keel_link_join_part(keel_link *link, keel_link_part *part) {
  const keel_link_devices *own = &link->devices;
  if (!own->device || part->size == 1) return KD_OK;
  uint32_t place = 0;
  while (part->ranks[place] != link->world.rank)
    place++;
  const int64_t *ranks = part->ranks + place - place % part->size;
  part->group =
      (keel_link_group){.size = part->size, .rank = place % part->size};
  bool spread = is_spread(own->cards, ranks, part->size);
  return link_joined_join(link, part->comm, spread ? KD_GROUP_MACHINES : 0,
                          &part->group);
}

void keel_link_leave(keel_link *link) {
  keel_link_devices *own = &link->devices;
  bool failed = link->failure != NULL;
  if (own->device) keel_lost_enter(own->device); /* only to free */
  for (keel_link_part *part = link->parts; part; part = part->next)
    leave_group(link, &part->group, failed);
  leave_group(link, &own->machine, failed);
  leave_group(link, &own->all, failed);
  if (own->device) keel_lost_leave(own->device);
  drop_device(own);
  if (own->between && !failed) link->mpi->release(own->between);
  free(own->cards);
  own->cards = NULL;
}
