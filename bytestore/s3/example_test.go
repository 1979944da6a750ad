package s3_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/s3"
)

// An object is stored in a server's bucket on this machine. The credentials come from the
// environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
func Example() {
	ctx := context.Background()
	config, err := s3.ParseDSN("s3://my-bucket/sluice?endpoint=http://127.0.0.1:9000")
	if err != nil {
		log.Fatal(err)
	}
	store, err := s3.Open(ctx, config, s3.Options{Staging: "/var/lib/sluice/staging"})
	if err != nil {
		log.Fatal(err) // for example because the server does not support conditional writes
	}
	defer store.Close()

	key := bytestore.NewName(time.Now())
	if err := store.Put(ctx, key, strings.NewReader("the content"), 11); err != nil {
		log.Fatal(err)
	}
	r, err := store.Open(ctx, key, 4, 7)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 7)
	if _, err := bytestore.ReadFull(r, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)
}

func ExampleParseDSN() {
	config, err := s3.ParseDSN("s3://my-bucket/sluice?endpoint=https://s3.example.org:9000&region=eu-west-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Bucket, config.Prefix, config.Endpoint, config.Region)

	// Keys in the address are rejected, and errors do not repeat them.
	_, err = s3.ParseDSN("s3://key:secret@my-bucket")
	fmt.Println(err)
	// Output:
	// my-bucket sluice/ https://s3.example.org:9000 eu-west-1
	// s3: the address must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or use an AWS credentials file
}
