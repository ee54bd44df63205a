/* rendezvous.c - the exchanges of a group's members, each of which runs a program.
 *
 * Members arrive at an exchange one after the other, on any threads, and none waits: each gets a
 * promise, and the last one begins the work of all. The n-th exchange of a member matches the n-th
 * exchange of every other member. A Send and its Receive involve two members, and are matched in a
 * list of messages (mailbox.h). */
#include "base/refs.h"
#include "device/context.h"
#include "ranks/group/group.h"
#include "ranks/group/mailbox.h"
#include "values/member.h"

/* One exchange, from the first that comes to the last. */
typedef struct exchange {
  struct exchange *next;
  uint64_t number;
  keel_exchange what;
  const keel_type *type;    /* of the values; NULL: none is known yet */
  char name[24], where[96]; /* of the first that came */
  uint32_t first, count;    /* its rank; how many have come */
  keel_tensor **promises;   /* NULL where a member has not come */
  int64_t *ranks;           /* of what */
  keel_tensor *values[];
} exchange;

typedef struct seat {
  keel_member member; /* must be first: cast from keel_member */
  struct rendezvous *rendezvous;
  uint64_t next; /* the number of its next exchange */
  bool left;
} seat;

typedef struct rendezvous {
  atomic_uint refs; /* of the seats */
  keel_group *group;
  pthread_mutex_t lock;
  exchange *open;
  keel_mailbox mailbox;
  keel_tensor *failure; /* why exchanges have ended */
  seat seats[];
} rendezvous;

/* Exchanges that can't complete any more, and why. */
typedef struct leftovers {
  exchange *open;
  keel_mail *mail;
  keel_tensor *failure; /* the rendezvous's; NULL: memory ran out */
} leftovers;

/* ---- an exchange ------------------------------------------------------------------ */

static void free_exchange(exchange *at, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    keel_tensor_release(at->values[i]);
    keel_tensor_release(at->promises[i]);
  }
  free(at->ranks);
  free(at);
}

static keel_status begin_exchange(rendezvous *m, const seat *by,
                                  const keel_exchange *what, const char *name,
                                  const char *where, exchange **out) {
  uint32_t size = m->group->size;
  exchange *at = calloc(1, sizeof *at + 2 * size * sizeof(keel_tensor *));
  int64_t *ranks = malloc(((size_t)what->rank_count + 1) * sizeof(int64_t));
  *out = NULL;
  if (!at || !ranks) {
    free(at);
    free(ranks);
    return keel_no_memory(size * sizeof(keel_tensor *));
  }
  if (what->rank_count)
    memcpy(ranks, what->ranks, (size_t)what->rank_count * sizeof *ranks);
  at->promises = at->values + size;
  at->ranks = ranks;
  at->what = *what;
  at->what.ranks = ranks;
  at->number = by->next;
  at->first = by->member.rank;
  snprintf(at->name, sizeof at->name, "%s", name);
  snprintf(at->where, sizeof at->where, "%s", where);
  at->next = m->open;
  m->open = at;
  *out = at;
  return KD_OK;
}

static bool is_equal(const keel_exchange *a, const keel_exchange *b) {
  return a->kind == b->kind && a->reduction == b->reduction &&
         a->size == b->size && a->rank_count == b->rank_count &&
         (!a->rank_count || !memcmp(a->ranks, b->ranks,
                                    (size_t)a->rank_count * sizeof *a->ranks));
}

/* All values are of one type, but for those that have failed. */
static bool is_of_type(exchange *at, keel_tensor *value) {
  if (keel_tensor_state(value) == KEEL_FAILED) return true;
  if (!at->type) at->type = value->type;
  return at->type == value->type;
}

static const char *rendezvous_device_of(const rendezvous *m, uint32_t rank) {
  return m->group->devices[rank]->name;
}

/* ---- its work ---------------------------------------------------------------------- */

static keel_status rendezvous_broadcast(keel_group *group,
                                        keel_tensor *const *inputs,
                                        keel_tensor **outputs) {
  return keel_group_broadcast(group, 0, inputs[0], outputs);
}

/* The exchange of one subgroup of the members. */
static keel_status work_in(keel_group *part, const keel_exchange *what,
                           keel_tensor *const *inputs, keel_tensor **outputs) {
  switch (what->kind) {
    case KEEL_ALL_REDUCE:
      return keel_group_all_reduce(part, what->reduction, inputs, outputs);
    case KEEL_ALL_GATHER:
      return keel_group_all_gather(part, inputs, outputs);
    case KEEL_REDUCE_SCATTER:
      return keel_group_reduce_scatter(part, what->reduction, inputs, outputs);
    case KEEL_ALL_TO_ALL:
      return keel_group_all_to_all(part, inputs, outputs);
    default:
      return rendezvous_broadcast(part, inputs, outputs);
  }
}

static keel_status work_in_parts(keel_group *group, const exchange *at,
                                 keel_tensor **outputs) {
  uint32_t size = at->what.rank_count ? at->what.size : group->size;
  keel_tensor **values = calloc(2 * (size_t)size, sizeof *values);
  int64_t *all = malloc(group->size * sizeof *all);
  keel_status status =
      values && all ? KD_OK : keel_no_memory(2 * size * sizeof *values);
  for (uint32_t i = 0; status == KD_OK && i < group->size; i++)
    all[i] = at->what.rank_count ? at->ranks[i] : i;
  for (uint32_t from = 0; status == KD_OK && from < group->size; from += size) {
    keel_group *part = NULL;
    for (uint32_t i = 0; i < size; i++)
      values[i] = at->values[all[from + i]];
    status = keel_group_part(group, all + from, size, &part);
    if (status == KD_OK)
      status = work_in(part, &at->what, values, values + size);
    for (uint32_t i = 0; status == KD_OK && i < size; i++)
      outputs[all[from + i]] = values[size + i];
  }
  free(values);
  free(all);
  return status;
}

static keel_status zeros_like(keel_device *device, keel_tensor *value,
                              keel_tensor **out_zeros) {
  if (keel_tensor_state(value) == KEEL_FAILED) {
    *out_zeros = keel_tensor_retain(value);
    return KD_OK;
  }
  const keel_type *type = value->type;
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_on(&device->context->host, type, &here));
  if (type->bytes) memset(here->data, 0, type->bytes);
  keel_status status = keel_group_move(device, here, out_zeros);
  keel_tensor_release(here);
  return status;
}

static keel_status permute(keel_group *group, const exchange *at,
                           keel_tensor **outputs) {
  for (int64_t i = 0; i < at->what.rank_count; i += 2) {
    int64_t from = at->ranks[i], to = at->ranks[i + 1];
    KEEL_TRY(
        keel_group_send(group, (uint32_t)to, at->values[from], &outputs[to]));
  }
  for (uint32_t i = 0; i < group->size; i++)
    if (!outputs[i])
      KEEL_TRY(zeros_like(group->devices[i], at->values[i], &outputs[i]));
  return KD_OK;
}

/* All have come. */
static void rendezvous_work(rendezvous *m, exchange *at) {
  uint32_t size = m->group->size;
  keel_tensor **outputs = calloc(size, sizeof *outputs);
  keel_status status = outputs ? KD_OK : keel_no_memory(size);
  if (status == KD_OK)
    status = at->what.kind == KEEL_PERMUTE
                 ? permute(m->group, at, outputs)
                 : work_in_parts(m->group, at, outputs);
  if (status != KD_OK && *at->where)
    keel_while(status, "in node \"%s\"", at->where);
  /* each promise lets a run go on in this thread, which may say something else */
  keel_tensor *failed =
      status == KD_OK ? NULL : keel_tensor_failed(m->group->context, status);
  for (uint32_t i = 0; i < size; i++) {
    keel_tensor *value = failed ? failed : outputs ? outputs[i] : NULL;
    if (value)
      keel_tensor_follow(at->promises[i], value);
    else
      keel_tensor_resolve_failed(at->promises[i], KD_OUT_OF_MEMORY);
    if (outputs) keel_tensor_release(outputs[i]);
  }
  keel_tensor_release(failed);
  free(outputs);
  free_exchange(at, size);
}

/* ---- its end ----------------------------------------------------------------------- */

/* Records why exchanges have ended. With the lock held; the lists are for fail_all. */
static leftovers close_rendezvous(rendezvous *m, keel_status status) {
  leftovers left = {m->open, m->mailbox.first, NULL};
  assert(KEEL_IS_LOCKED(&m->lock));
  if (!m->failure) m->failure = keel_tensor_failed(m->group->context, status);
  left.failure = m->failure;
  m->open = NULL;
  keel_mailbox_init(&m->mailbox);
  return left;
}

/* Fails the exchanges that arrived members wait for. Without the lock: it calls their runs. */
static void fail_all(rendezvous *m, leftovers left) {
  keel_mailbox_fail(left.mail, left.failure);
  while (left.open) {
    exchange *at = left.open;
    left.open = at->next;
    for (uint32_t i = 0; i < m->group->size; i++)
      if (at->promises[i]) {
        if (left.failure)
          keel_tensor_follow(at->promises[i], left.failure);
        else
          keel_tensor_resolve_failed(at->promises[i], KD_OUT_OF_MEMORY);
      }
    free_exchange(at, m->group->size);
  }
}

static keel_status fail_left(const rendezvous *m, const seat *who,
                             const exchange *at) {
  return keel_fail(KD_ABORTED,
                   "rank %u (%s) has ended before exchange %llu, %s%s%s%s, in"
                   " which rank %u (%s) waits for it",
                   (unsigned)who->member.rank,
                   rendezvous_device_of(m, who->member.rank),
                   (unsigned long long)at->number, at->name,
                   *at->where ? " \"" : "", at->where, *at->where ? "\"" : "",
                   (unsigned)at->first, rendezvous_device_of(m, at->first));
}

static keel_status fail_other(const rendezvous *m, const seat *by,
                              const exchange *at, const char *name,
                              const char *where) {
  return keel_fail(
      KD_INVALID_ARGUMENT,
      "exchange %llu differs: rank %u (%s) has come to %s%s%s%s,"
      " and rank %u (%s) to %s%s%s%s%s",
      (unsigned long long)at->number, (unsigned)at->first,
      rendezvous_device_of(m, at->first), at->name, *at->where ? " \"" : "",
      at->where, *at->where ? "\"" : "", (unsigned)by->member.rank,
      rendezvous_device_of(m, by->member.rank), name, *where ? " \"" : "",
      where, *where ? "\"" : "",
      strcmp(name, at->name) ? "" : " of other parameters or types");
}

/* ---- of two members ------------------------------------------------------------------ */

static keel_status fail_unsent(const rendezvous *m, const keel_mail *awaited) {
  return keel_fail(KD_ABORTED,
                   "rank %u (%s) has ended before it has sent the value that "
                   "rank %u (%s) waits for in %s%s%s%s",
                   (unsigned)awaited->from,
                   rendezvous_device_of(m, awaited->from),
                   (unsigned)awaited->to, rendezvous_device_of(m, awaited->to),
                   awaited->name, *awaited->where ? " \"" : "", awaited->where,
                   *awaited->where ? "\"" : "");
}

static keel_status fail_unheard(const rendezvous *m, const keel_mail *sent) {
  return keel_fail(KD_ABORTED,
                   "rank %u (%s) has ended without receiving the value that "
                   "rank %u (%s) sends it in %s%s%s%s",
                   (unsigned)sent->to, rendezvous_device_of(m, sent->to),
                   (unsigned)sent->from, rendezvous_device_of(m, sent->from),
                   sent->name, *sent->where ? " \"" : "", sent->where,
                   *sent->where ? "\"" : "");
}

/* A Send and a Receive that belong together, one in each. */
static keel_status check_mail(const keel_mail *send, const keel_mail *receive) {
  char sent[96], wanted[96];
  if (keel_tensor_state(send->value) == KEEL_FAILED ||
      send->value->type == receive->type)
    return KD_OK;
  return keel_fail(KD_INVALID_ARGUMENT,
                   "rank %u sends %s (%s%s%s%s), and rank %u receives %s"
                   " (%s%s%s%s)",
                   (unsigned)send->from,
                   keel_type_text(send->value->type, sent, sizeof sent),
                   send->name, *send->where ? " \"" : "", send->where,
                   *send->where ? "\"" : "", (unsigned)send->to,
                   keel_type_text(receive->type, wanted, sizeof wanted),
                   receive->name, *receive->where ? " \"" : "", receive->where,
                   *receive->where ? "\"" : "");
}

/* Finds the other one, or adds it to those that wait. With the lock held. */
static keel_status find_mail(rendezvous *m, const keel_mail *mine,
                             keel_mail **out_other) {
  bool sends = mine->value != NULL;
  *out_other = NULL;
  if (m->failure) return keel_tensor_query(m->failure);
  *out_other = keel_mailbox_take(&m->mailbox, mine->from, mine->to, !sends);
  if (*out_other)
    return check_mail(sends ? mine : *out_other, sends ? *out_other : mine);
  if (m->seats[sends ? mine->to : mine->from].left)
    return sends ? fail_unheard(m, mine) : fail_unsent(m, mine);
  return keel_mailbox_add(&m->mailbox, mine);
}

/* Without the lock: the promise lets a run go on. */
static void deliver(const rendezvous *m, keel_tensor *value, uint32_t to,
                    keel_tensor *promise) {
  keel_tensor *moved = NULL;
  keel_status status = keel_group_move(m->group->devices[to], value, &moved);
  if (status == KD_OK)
    keel_tensor_follow(promise, moved);
  else
    keel_tensor_resolve_failed(promise, status);
  keel_tensor_release(moved);
}

static keel_status meet_one(seat *by, const keel_exchange *what,
                            const char *name, const char *where,
                            keel_tensor *value, keel_tensor **out_value) {
  rendezvous *m = by->rendezvous;
  bool sends = what->kind == KEEL_SEND;
  keel_mail mine = {.from = sends ? by->member.rank : what->peer,
                    .to = sends ? what->peer : by->member.rank,
                    .value = value,
                    .type = what->type};
  keel_mail *other = NULL;
  leftovers left = {.open = NULL};
  if (!sends) mine.promise = keel_tensor_pending(m->group->context);
  if (!sends && !mine.promise) return KD_OUT_OF_MEMORY;
  snprintf(mine.name, sizeof mine.name, "%s", name);
  snprintf(mine.where, sizeof mine.where, "%s", where);
  pthread_mutex_lock(&m->lock);
  keel_status status = find_mail(m, &mine, &other);
  if (status != KD_OK && !m->failure) left = close_rendezvous(m, status);
  left.failure = m->failure;
  pthread_mutex_unlock(&m->lock);
  if (other && status != KD_OK) { /* it was taken out, and fails too */
    other->next = left.mail;
    left.mail = other;
    other = NULL;
  }
  fail_all(m, left);
  if (status != KD_OK) {
    keel_tensor_release(mine.promise);
    return left.failure ? keel_tensor_query(left.failure) : status;
  }
  *out_value = sends ? keel_tensor_retain(value) : mine.promise;
  if (!other) return KD_OK;
  deliver(m, sends ? value : other->value, mine.to,
          sends ? other->promise : mine.promise);
  keel_mail_free(other);
  return KD_OK;
}

/* ---- members ------------------------------------------------------------------------ */

/* The exchange that is next for a member. With the lock held. */
static keel_status rendezvous_find(rendezvous *m, const seat *by,
                                   const keel_exchange *what, const char *name,
                                   const char *where, keel_tensor *value,
                                   exchange **out) {
  exchange *at = m->open;
  if (m->failure) return keel_tensor_query(m->failure);
  while (at && at->number != by->next)
    at = at->next;
  if (!at) KEEL_TRY(begin_exchange(m, by, what, name, where, &at));
  *out = at;
  if (!is_equal(&at->what, what) || !is_of_type(at, value))
    return fail_other(m, by, at, name, where);
  for (uint32_t i = 0; i < m->group->size; i++)
    if (m->seats[i].left && m->seats[i].next <= at->number)
      return fail_left(m, &m->seats[i], at);
  return KD_OK;
}

static void rendezvous_take_out(rendezvous *m, const exchange *at) {
  exchange **link = &m->open;
  while (*link != at)
    link = &(*link)->next;
  *link = at->next;
}

static keel_status rendezvous_meet(keel_member *self, const keel_exchange *what,
                                   const char *name, const char *where,
                                   keel_tensor *value,
                                   keel_tensor **out_value) {
  seat *by = (seat *)(void *)self;
  rendezvous *m = by->rendezvous;
  exchange *at = NULL;
  leftovers left = {.open = NULL};
  if (keel_exchange_is_of_two(what))
    return meet_one(by, what, name, where, value, out_value);
  keel_tensor *promise = keel_tensor_pending(m->group->context);
  if (!promise) return KD_OUT_OF_MEMORY;
  pthread_mutex_lock(&m->lock);
  keel_status status = rendezvous_find(m, by, what, name, where, value, &at);
  bool last = false;
  if (status == KD_OK) {
    by->next++;
    at->values[self->rank] = keel_tensor_retain(value);
    at->promises[self->rank] = keel_tensor_retain(promise);
    last = ++at->count == m->group->size;
    if (last) rendezvous_take_out(m, at);
  } else if (!m->failure) {
    left = close_rendezvous(m, status);
  }
  pthread_mutex_unlock(&m->lock);
  fail_all(m, left);
  if (last) rendezvous_work(m, at);
  if (status == KD_OK)
    *out_value = promise;
  else
    keel_tensor_release(promise);
  return status;
}

static void rendezvous_drop(rendezvous *m, uint32_t refs) {
  for (uint32_t i = 1; i < refs; i++)
    keel_refs_drop(&m->refs);
  if (!keel_refs_drop(&m->refs)) return;
  assert(!m->open);
  keel_mailbox_fail(m->mailbox.first, m->failure); /* sent, and not received */
  keel_tensor_release(m->failure);
  keel_group_release(m->group);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static void lose(keel_member *self, keel_tensor *failure) {
  const seat *by = (const seat *)(const void *)self;
  rendezvous *m = by->rendezvous;
  leftovers left = {.open = NULL};
  pthread_mutex_lock(&m->lock);
  if (!m->failure)
    left =
        close_rendezvous(m, keel_while(keel_tensor_query(failure),
                                       "on rank %u (%s)", (unsigned)self->rank,
                                       rendezvous_device_of(m, self->rank)));
  pthread_mutex_unlock(&m->lock);
  fail_all(m, left);
}

static void rendezvous_leave(keel_member *self) {
  seat *by = (seat *)(void *)self;
  rendezvous *m = by->rendezvous;
  leftovers left = {.open = NULL};
  pthread_mutex_lock(&m->lock);
  by->left = true;
  const keel_mail *awaited = keel_mailbox_awaited(&m->mailbox, by->member.rank);
  for (const exchange *at = m->open; at && !left.open; at = at->next)
    if (at->number >= by->next)
      left = close_rendezvous(m, fail_left(m, by, at));
  if (awaited && !left.open)
    left = close_rendezvous(m, fail_unsent(m, awaited));
  pthread_mutex_unlock(&m->lock);
  fail_all(m, left);
  rendezvous_drop(m, 1);
}

keel_status keel_group_members(keel_group *group, keel_tensor **members) {
  uint32_t size = group->size;
  rendezvous *m = calloc(1, sizeof *m + size * sizeof(seat));
  for (uint32_t i = 0; i < size; i++)
    members[i] = NULL;
  if (!m) return keel_no_memory(size * sizeof(seat));
  pthread_mutex_init(&m->lock, NULL);
  keel_mailbox_init(&m->mailbox);
  keel_refs_take(&group->refs);
  m->group = group;
  /* one each, and one for this call */
  atomic_init(&m->refs, size + 1);
  keel_status status = KD_OK;
  uint32_t made = 0;
  for (; made < size && status == KD_OK; made += status == KD_OK) {
    seat *at = &m->seats[made];
    at->member = (keel_member){.rank = made,
                               .size = size,
                               .meet = rendezvous_meet,
                               .lose = lose,
                               .leave = rendezvous_leave};
    at->rendezvous = m;
    status = keel_member_value(group->context, &at->member, &members[made]);
  }
  for (uint32_t i = 0; status != KD_OK && i < made; i++) {
    keel_tensor_release(members[i]);
    members[i] = NULL;
  }
  rendezvous_drop(m, 1 + size - made);
  return status;
}
