/* The rules between the two stores: names, notes, what a crash has left, and who is right. */
#include "base/assert.h"
#include "io/disk.h"
#include "snap/transfer_int.h"

#include <inttypes.h>
#include <stdio.h>

enum { NOTE_BYTES_MAX = 256 };

#define NOTE_NAME "transfer"

/* ---- Reasons ---- */

enum err dir_fail(struct dir *d, enum err e, const char *path, const char *format, ...)
{
    va_list args;

    assert(e != ERR_OK);
    va_start(args, format);
    db_say_v(d->why, path, format, args);
    va_end(args);
    return e;
}

enum err dir_tried(struct dir *d, enum err e, const char *what, const char *path)
{
    return e == ERR_OK ? e : dir_fail(d, e, path, "cannot %s: %s", what, err_text(e));
}

/* The name is changed in memory and nobody knows about the disk. To go on would write to one store,
 * and perhaps start from the other after a power cut; to undo it may fail the same way. */
void dir_must_sync(struct dir *d, const char *path)
{
    enum err e = disk_sync_dir(d->disk, path);

    if (e != ERR_OK)
        fatal("cannot sync %s after renaming in it: %s", path, err_text(e));
}

enum err dir_check_index(struct dir *d, const char *path, uint64_t index)
{
    if (index >= d->wal_index)
        return ERR_OK;
    return dir_fail(d, ERR_CORRUPT, path,
                    "its consistent index %" PRIu64 " is below %" PRIu64
                    ", the last snapshot's in the log",
                    index, d->wal_index);
}

/* ---- Names ---- */

static void name_files(struct dir *d, const char *data_dir)
{
    d->member = arena_printf(&d->arena, "%s/member", data_dir);
    d->snap = arena_printf(&d->arena, "%s/snap", d->member);
    d->db = arena_printf(&d->arena, "%s/db", d->snap);
    d->db_tmp = arena_printf(&d->arena, "%s/db.tmp", d->snap);
    d->db_imported = arena_printf(&d->arena, "%s/db.imported", d->snap);
    d->store = arena_printf(&d->arena, "%s/" SNAP_STORE_NAME, d->member);
    d->store_tmp = arena_printf(&d->arena, "%s.tmp", d->store);
}

char *snap_store_dir(const char *data_dir)
{
    struct buf path = {0};

    buf_printf(&path, "%s/member/" SNAP_STORE_NAME, data_dir);
    buf_append_byte(&path, '\0');
    return (char *)path.at;
}

enum err dir_open(struct dir *d, struct disk *disk, const struct snap_place *place)
{
    assert(place->data_dir);
    assert(place->why);

    *d = (struct dir){.disk = disk,
                      .wal_index = place->wal_index,
                      .lacks_log = place->lacks_log,
                      .why = place->why};
    name_files(d, place->data_dir);
    enum err e = disk_open(disk, d->member, DISK_READ_ONLY, 0, &d->lock);
    if (e == ERR_OK)
        e = disk_lock(disk, d->lock, DISK_FLOCK);
    return dir_tried(d, e, "lock", d->member);
}

void dir_close(struct dir *d)
{
    enum err e = d->lock ? disk_close(d->disk, d->lock) : ERR_OK;

    (void)e; /* nothing was written through it */
    arena_free(&d->arena);
}

static enum err exists(struct disk *disk, const char *path, bool *out)
{
    struct disk_stat stat;
    enum err e = disk_stat(disk, path, &stat);

    *out = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err look(struct dir *d, enum snap_holds *out)
{
    bool db = false, store = false;
    enum err e = exists(d->disk, d->db, &db);

    if (e != ERR_OK)
        return dir_tried(d, e, "look", d->db);
    e = exists(d->disk, d->store, &store);
    if (e != ERR_OK)
        return dir_tried(d, e, "look", d->store);
    *out = db      ? store ? SNAP_HOLDS_BOTH : SNAP_HOLDS_DB
           : store ? SNAP_HOLDS_STORE
                   : SNAP_HOLDS_NOTHING;
    return ERR_OK;
}

enum err snap_look(struct disk *disk, const char *data_dir, enum snap_holds *out)
{
    struct buf why = {0};
    struct dir d = {.disk = disk, .why = &why};

    name_files(&d, data_dir);
    enum err e = look(&d, out);
    dir_close(&d);
    buf_free(&why);
    return e;
}

/* ---- Removing ---- */

static enum err remove_file(struct dir *d, const char *path)
{
    enum err e = disk_remove(d->disk, path);

    return dir_tried(d, e == ERR_NOT_FOUND ? ERR_OK : e, "remove", path);
}

enum err dir_remove_folder(struct dir *d, const char *path)
{
    struct buf names = {0};
    enum err e = disk_list(d->disk, path, SNAP_NAMES_BYTES_MAX, &names);
    struct bytes left = buf_bytes(&names);
    bool missing = e == ERR_NOT_FOUND;

    for (const char *name; e == ERR_OK && (name = disk_next_name(&left));)
        e = disk_remove(d->disk, arena_printf(&d->arena, "%s/%s", path, name));
    if (e == ERR_OK)
        e = disk_remove(d->disk, path);
    buf_free(&names);
    return dir_tried(d, missing ? ERR_OK : e, "remove", path);
}

enum err dir_remove_store(struct dir *d)
{
    enum err e = dir_remove_folder(d, d->store_tmp);

    /* It loses its name first: a crash while the files go leaves a folder that the next start
     * removes, and not half a store. */
    if (e == ERR_OK)
        e = dir_tried(d, disk_rename(d->disk, d->store, d->store_tmp), "rename", d->store);
    if (e != ERR_OK)
        return e;
    dir_must_sync(d, d->member);
    return dir_remove_folder(d, d->store_tmp);
}

/* ---- The note ---- */

static const char *note_path(struct dir *d, const char *folder, const char *end)
{
    return arena_printf(&d->arena, "%s/" NOTE_NAME "%s", folder, end);
}

enum err note_write(struct dir *d, const char *folder, const struct note *note)
{
    const char *path = note_path(d, folder, ""), *tmp = note_path(d, folder, ".tmp");
    char text[NOTE_BYTES_MAX];
    int len = note->kind == NOTE_IMPORT
                  ? snprintf(text, sizeof(text), "import txid %" PRIu64 " index %" PRIu64 "\n",
                             note->txid, note->index)
                  : snprintf(text, sizeof(text), "export index %" PRIu64 "\n", note->index);

    assert(note->kind != NOTE_NONE);
    enum err e = disk_write_file(d->disk, tmp, 0600, bytes_of(text, (size_t)len));
    if (e == ERR_OK)
        e = disk_rename(d->disk, tmp, path);
    if (e == ERR_OK)
        dir_must_sync(d, folder);
    return dir_tried(d, e, "write", path);
}

static bool parse_note(const char *text, struct note *out)
{
    struct note imported = {.kind = NOTE_IMPORT}, exported = {.kind = NOTE_EXPORT};
    char end = 0;

    if (sscanf(text, "import txid %" SCNu64 " index %" SCNu64 "%c", &imported.txid, &imported.index,
               &end) == 3)
        *out = imported;
    else if (sscanf(text, "export index %" SCNu64 "%c", &exported.index, &end) == 2)
        *out = exported;
    return end == '\n';
}

enum err note_read(struct dir *d, const char *folder, struct note *out)
{
    const char *path = note_path(d, folder, "");
    struct buf text = {0};
    enum err e = disk_read_file(d->disk, path, NOTE_BYTES_MAX, &text);

    *out = (struct note){0};
    if (e == ERR_OK && !parse_note(buf_str(&text), out))
        e = dir_fail(d, ERR_CORRUPT, path, "offset 0: not a note of an import or export");
    else if (e != ERR_OK && e != ERR_NOT_FOUND)
        e = dir_tried(d, e, "read", path);
    buf_free(&text);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

enum err note_remove(struct dir *d, const char *folder)
{
    enum err e = remove_file(d, note_path(d, folder, ""));

    if (e == ERR_OK)
        dir_must_sync(d, folder);
    return e;
}

/* ---- etcd's file ---- */

enum err dir_open_db(struct dir *d, const char *path, struct db *db)
{
    return db_open(
        db,
        &(struct db_options){
            .disk = d->disk, .path = path, .kind = BOLT_LIVE, .is_shared = true, .why = d->why});
}

/* ---- Ours ---- */

enum err dir_open_store(struct dir *d, const char *path, struct backend **out)
{
    struct buf why = {0};
    enum err e =
        backend_open(&(struct backend_options){.disk = d->disk,
                                               .dir = path,
                                               .log_index = path == d->store ? d->wal_index : 0,
                                               .why = &why},
                     out);

    if (e != ERR_OK)
        e = dir_fail(d, e, path, "cannot open the store: %s%s%s", err_text(e),
                     why.len > 0 ? ", " : "", buf_str(&why));
    buf_free(&why);
    return e;
}

static enum err read_store(struct dir *d, struct backend_position *out)
{
    struct backend *b;
    enum err e = dir_open_store(d, d->store, &b);

    if (e != ERR_OK)
        return e;
    *out = backend_applied(b);
    backend_close(b);
    return ERR_OK;
}

/* ---- What a crash has left ---- */

enum err import_put_aside(struct dir *d)
{
    enum err e = dir_tried(d, disk_rename(d->disk, d->db, d->db_imported), "rename", d->db);

    if (e == ERR_OK)
        dir_must_sync(d, d->snap);
    return e;
}

static enum err import_finish(struct dir *d)
{
    enum err e = import_put_aside(d);

    return e == ERR_OK ? note_remove(d, d->store) : e;
}

struct both {
    uint64_t txid;
    struct backend_position db, store;
};

static enum err read_both(struct dir *d, struct both *out)
{
    struct db db;
    enum err e = dir_open_db(d, d->db, &db);

    if (e == ERR_OK) {
        out->txid = bolt_info(db.bolt).txid;
        out->db = db.position;
        e = read_store(d, &out->store);
    }
    db_close(&db);
    return e;
}

static const char *advice(const struct both *both)
{
    if (both->db.index > both->store.index)
        return "snap/db is newer, as after a start of etcd on a directory that was not exported; "
               "to keep what etcd has written, move " SNAP_STORE_NAME
               " away, and the directory is etcd's";
    if (both->db.index < both->store.index)
        return SNAP_STORE_NAME " is newer; to keep it, move snap/db away and try again";
    return "neither is newer; move one of them away";
}

static enum err refuse_both(struct dir *d, const struct both *both)
{
    return dir_fail(d, ERR_EXISTS, d->member,
                    "both snap/db, with consistent index %" PRIu64 ", and " SNAP_STORE_NAME
                    ", with consistent index %" PRIu64 ", are there: %s",
                    both->db.index, both->store.index, advice(both));
}

/* Both are there: the note may say which one was about to go. */
static enum err settle_both(struct dir *d, const struct note *note)
{
    struct both both = {0};
    enum err e = read_both(d, &both);

    if (e != ERR_OK)
        return e;
    bool imported = note->kind == NOTE_IMPORT && both.txid == note->txid &&
                    both.db.index == note->index && both.store.index == note->index;
    bool exported = note->kind == NOTE_EXPORT && both.db.index >= note->index &&
                    both.store.index == note->index;
    if (imported)
        return import_finish(d);
    return exported ? dir_remove_store(d) : refuse_both(d, &both);
}

/* Is this etcd's db up to date with the log's snapshot? One that is missing is not. */
static enum err db_reaches_snapshot(struct dir *d, bool *out)
{
    struct db db;
    enum err e = exists(d->disk, d->db, out);

    if (e != ERR_OK || !*out)
        return dir_tried(d, e, "look", d->db);
    e = dir_open_db(d, d->db, &db);
    *out = db.position.index >= d->wal_index;
    db_close(&db);
    return e;
}

enum err dir_check_source(struct dir *d, uint64_t index)
{
    if (d->source == d->db || index == d->wal_index)
        return dir_check_index(d, d->source, index);
    return dir_fail(d, ERR_CORRUPT, d->source,
                    "its consistent index %" PRIu64 " is not its snapshot's, %" PRIu64, index,
                    d->wal_index);
}

/*
 * A leader's snapshot comes as a whole db beside the old one, is noted in the log, and only then
 * takes the old one's name. An etcd that died in between would rename it at its next start. We only
 * look at it instead: until it is certain that we can go on with the directory it is etcd's.
 */
static enum err find_source(struct dir *d)
{
    const char *path = arena_printf(&d->arena, "%s/%016" PRIx64 ".snap.db", d->snap, d->wal_index);
    bool received = false, reaches = false;
    enum err e = dir_tried(d, exists(d->disk, path, &received), "look", path);

    d->source = d->db;
    if (e != ERR_OK || !received || d->wal_index == 0)
        return e;
    e = db_reaches_snapshot(d, &reaches);
    if (e == ERR_OK && !reaches)
        d->source = path;
    return e;
}

enum err dir_adopt_source(struct dir *d)
{
    if (d->source == d->db)
        return ERR_OK;
    enum err e = dir_tried(d, disk_rename(d->disk, d->source, d->db), "rename", d->source);
    if (e == ERR_OK)
        dir_must_sync(d, d->snap);
    return e;
}

enum err dir_settle(struct dir *d, enum snap_holds *out)
{
    struct note note = {0};
    enum snap_holds holds = SNAP_HOLDS_NOTHING;
    enum err e = dir_remove_folder(d, d->store_tmp);

    if (e == ERR_OK)
        e = remove_file(d, d->db_tmp);
    if (e == ERR_OK)
        e = look(d, &holds);
    if (e == ERR_OK && (holds == SNAP_HOLDS_STORE || holds == SNAP_HOLDS_BOTH))
        e = note_read(d, d->store, &note);
    if (e == ERR_OK && holds == SNAP_HOLDS_BOTH)
        e = settle_both(d, &note);
    else if (e == ERR_OK && note.kind != NOTE_NONE)
        e = note_remove(d, d->store);
    if (e == ERR_OK)
        e = look(d, out);
    bool etcds = e == ERR_OK && (*out == SNAP_HOLDS_DB || *out == SNAP_HOLDS_NOTHING);
    if (etcds)
        e = find_source(d);
    if (etcds && e == ERR_OK && d->source != d->db)
        *out = SNAP_HOLDS_DB;
    return e;
}

/* ---- Who is right ---- */

static enum err read_truth(struct dir *d, struct snap_truth *out)
{
    struct backend_position position = {0};
    enum err e = dir_settle(d, &out->holds);

    if (e == ERR_OK && out->holds == SNAP_HOLDS_DB) {
        struct db db;
        e = dir_open_db(d, d->source, &db);
        position = db.position;
        db_close(&db);
    } else if (e == ERR_OK && out->holds == SNAP_HOLDS_STORE) {
        e = read_store(d, &position);
    }
    if (e != ERR_OK)
        return e;
    out->index = position.index;
    out->term = position.term;
    return out->holds == SNAP_HOLDS_DB ? dir_check_source(d, position.index)
                                       : dir_check_index(d, d->store, position.index);
}

enum err snap_truth(struct disk *disk, const struct snap_place *place, struct snap_truth *out)
{
    struct dir d;
    size_t said = place->why->len;
    enum err e = dir_open(&d, disk, place);

    *out = (struct snap_truth){0};
    if (e == ERR_OK)
        e = read_truth(&d, out);
    else if (e == ERR_NOT_FOUND && place->wal_index == 0) { /* not even member/ */
        place->why->len = said;
        e = ERR_OK;
    }
    dir_close(&d);
    return e;
}
