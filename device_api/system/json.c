/* json.c - opens cJSON. */
#include "system/json.h"

KEEL_IMPORT_WITH(keel_json, keel_json_functions, KEEL_JSON_LIBRARY,
                 KEEL_JSON_FUNCTIONS)
