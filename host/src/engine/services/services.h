/* services.h - the host's services for plugins. */
#ifndef KEEL_SERVICES_H
#define KEEL_SERVICES_H

#include <kd/host.h>

/* All but plugin_path, which each library has of its own. */
extern const kd_host keel_services;

#endif /* KEEL_SERVICES_H */
