//! What is true of which driver.
