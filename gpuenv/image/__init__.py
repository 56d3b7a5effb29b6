"""Container images: builds them, and checks images, Dockerfiles and services."""
