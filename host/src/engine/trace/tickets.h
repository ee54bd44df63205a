/* tickets.h - kernel times by the devices' clocks, summed per step. */
#ifndef KEEL_TICKETS_H
#define KEEL_TICKETS_H

#include "base/base.h"

/* Resets all sums; earlier tickets become invalid. One profile at a time. */
void keel_tickets_begin(void);

/* Takes a ticket for a step; 0: none is left. */
uint32_t keel_ticket_take(void);

/* The number of a launch (kd_launch.correlation), and its serial. */
static inline uint64_t keel_ticket_number(uint32_t ticket, uint32_t serial) {
  return (uint64_t)ticket << 32 | serial;
}
static inline uint32_t keel_ticket_serial(uint64_t number) {
  return (uint32_t)number;
}

/* Adds the nanoseconds of a record to the ticket of its launch; from any thread. */
void keel_ticket_add(uint64_t number, uint64_t time);

/* Nanoseconds of the ticket's records; false if it has none. */
bool keel_ticket_read(uint32_t ticket, uint64_t *out_time);

#endif /* KEEL_TICKETS_H */
