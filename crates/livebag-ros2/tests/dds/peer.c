/* A foreign participant for tests/dds.rs with the system's Cyclone DDS: peer ROLE DOMAIN ARGUMENT…,
   with the roles "publish" and "listen" of peer.py. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dds/dds.h"
#include "peer.h"

#define SETTINGS \
  "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces>" \
  "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto" \
  "</ParticipantIndex><Tag>${LIVEBAG_DDS_TAG}</Tag><Peers><Peer address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>"

typedef std_msgs_msg_dds__ByteMultiArray_ message_t;

static unsigned crc(unsigned sum, const void *data, size_t len) {
  const unsigned char *bytes = data;
  sum = ~sum;
  for (size_t at = 0; at < len; at++) {
    sum ^= bytes[at];
    for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & -(sum & 1));
  }
  return ~sum;
}

/* The message as its writer encodes it: CDR, little endian, with its encapsulation. */
static unsigned digest(unsigned sum, const message_t *message) {
  unsigned len = message->data._length, whole = 12 + len;
  unsigned char head[12] = {0, 1, 0, 0};
  memcpy(head + 4, &message->number, 4);
  memcpy(head + 8, &len, 4);
  sum = crc(sum, &whole, 4);
  sum = crc(sum, head, sizeof head);
  return crc(sum, message->data._buffer, len);
}

static dds_entity_t topic(dds_entity_t participant, const char *name) {
  char full[256];
  snprintf(full, sizeof full, "rt%s", name);
  return dds_create_topic(participant, &std_msgs_msg_dds__ByteMultiArray__desc, full, NULL, NULL);
}

static dds_qos_t *reliable(void) {
  dds_qos_t *qos = dds_create_qos();
  dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(30));
  dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, DDS_LENGTH_UNLIMITED);
  return qos;
}

static void publish(dds_entity_t participant, int topics, unsigned count) {
  static unsigned char bytes[5000];
  dds_entity_t writers[64];
  unsigned sums[64] = {0}, sent[64] = {0};
  for (int i = 0; i < topics; i++) {
    char name[64];
    snprintf(name, sizeof name, "/peer/topic_%d", i);
    writers[i] = dds_create_writer(participant, topic(participant, name), reliable(), NULL);
  }
  printf("{\"ready\": true}\n");
  for (int i = 0; i < topics; i++)
    while (dds_get_matched_subscriptions(writers[i], NULL, 0) < 1) dds_sleepfor(DDS_MSECS(10));
  dds_sleepfor(DDS_MSECS(500));
  for (unsigned number = 0; number < count; number++) {
    for (int i = 0; i < topics; i++) {
      if (number % (unsigned)(i + 1) != 0) continue;
      message_t message = {.number = number};
      message.data._length = message.data._maximum = number * (unsigned)(i + 1) % 5000;
      message.data._buffer = bytes;
      memset(bytes, (int)(number % 251), sizeof bytes);
      if (dds_write(writers[i], &message) != 0) abort();
      sums[i] = digest(sums[i], &message);
      sent[i]++;
    }
  }
  printf("{\"sent\": {");
  for (int i = 0; i < topics; i++)
    printf("%s\"/peer/topic_%d\": [%u, %u]", i ? ", " : "", i, sent[i], sums[i]);
  printf("}}\n");
}

static void listen(dds_entity_t participant, const char *name, unsigned count) {
  dds_entity_t reader = dds_create_reader(participant, topic(participant, name), reliable(), NULL);
  printf("{\"ready\": true}\n");
  unsigned *numbers = calloc(count, sizeof *numbers), *sums = calloc(count, sizeof *sums);
  for (unsigned taken = 0; taken < count;) {
    void *sample = NULL;
    dds_sample_info_t info;
    if (dds_take(reader, &sample, &info, 1, 1) < 1) {
      dds_sleepfor(DDS_MSECS(5));
      continue;
    }
    if (info.valid_data) {
      message_t *message = sample;
      numbers[taken] = message->number;
      sums[taken++] = crc(0, message->data._buffer, message->data._length);
    }
    dds_return_loan(reader, &sample, 1);
  }
  printf("{\"taken\": [");
  for (unsigned i = 0; i < count; i++) printf("%s[%u, %u]", i ? ", " : "", numbers[i], sums[i]);
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("CYCLONEDDS_URI", SETTINGS, 1);
  dds_entity_t participant = dds_create_participant((dds_domainid_t)atoi(argv[2]), NULL, NULL);
  if (participant < 0) return 1;
  if (strcmp(argv[1], "publish") == 0) publish(participant, atoi(argv[3]), (unsigned)atoi(argv[4]));
  else if (strcmp(argv[1], "listen") == 0) listen(participant, argv[3], (unsigned)atoi(argv[4]));
  else return 2;
  while (getchar() != EOF) {}
  dds_delete(participant);
  return 0;
}
