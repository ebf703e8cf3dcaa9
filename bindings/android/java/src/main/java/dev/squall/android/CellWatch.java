package dev.squall.android;

/** Listens to the mobile network. */
interface CellWatch {
    /** Stops listening. */
    void stop();
}
